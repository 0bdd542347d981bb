// How a simulated node drains and leaves the cluster.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

using namespace std::chrono_literals;

constexpr auto hand_over_limit = 2s;

void process::set_drained(bool drained) {
  if (leaving_)
    return;
  drained_ = drained;
  auto announce = [this, drained] {
    if (drained_ != drained || leaving_)
      return;
    step([&](auto& machine, auto now) { return machine.set_draining(drained, now); });
  };
  if (drained)
    hand_over_shard(afterwards::drains, announce);
  else
    announce();
}

/// Gives the shard's records away, withdraws the node's pages, and takes the node out of the
/// cluster.
void process::leave() {
  if (std::exchange(leaving_, true))
    return;
  hand_over_shard(afterwards::leaves, [this] {
    publisher_->leave();
    carry_out_orders();
  });
}

/// Returns options by which hand-over and sweep go in small pieces, so that the shard changes
/// between two of them.
directory::member_shard::options process::shard_options() const {
  directory::member_shard::options options;
  options.self = host_.self.id;
  options.replicas = cluster_.settings().replicas;
  options.sweep_slice = 2;
  options.giving.in_flight_max = 2;
  options.giving.batch_records = 4;
  options.giving.places_per_step = 16;
  return options;
}

void process::hand_over_shard(afterwards then, const std::function<void()>& done) {
  shard_.begin_to_give(then, cluster_.time().now() + hand_over_limit,
                       [done](const directory::handed_over&) { done(); });
  give_on();
}

/// Sends the records that the shard's hand-over gives out now to their new owners.
void process::give_on() {
  for (auto& order : shard_.give(cluster_.time().now())) {
    const auto count = order.records.size() / directory::wire::publish_record_bytes;
    const auto take = [this, count](const std::string* outcomes) {
      if (outcomes != nullptr)
        cluster_.counts().handed_over += shard_.given(*outcomes);
      else
        shard_.not_given(count);
      give_on();
    };
    if (const auto* owner = shard_.process_of(order.to))
      cluster_.ask(*this, *owner, directory_timeout, take, &process::serve_publish,
                   std::move(order.records), directory::view_number{});
    else
      take(nullptr);
  }
  shard_.end_giving();
}

} // namespace peercache::scenario
