// How a node drains and leaves.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

using namespace std::chrono_literals;

namespace {

constexpr auto hand_over_limit = 2s;
constexpr auto batch_timeout = 1000ms;

} // namespace

void process::set_drained(bool drained) {
  if (leaving_)
    return;
  drained_ = drained;
  auto announce = [this, drained] {
    if (drained_ != drained || leaving_)
      return;
    auto before = machine_->state();
    step(machine_->set_draining(drained, cluster_.local_now(host_)), before);
  };
  if (drained)
    hand_over_shard(false, announce);
  else
    announce();
}

/// Gives the shard's records away, withdraws the node's pages, and takes the node out of the
/// cluster.
void process::leave() {
  if (std::exchange(leaving_, true))
    return;
  hand_over_shard(true, [this] {
    publisher_->leave();
    carry_out_orders();
  });
}

void process::hand_over_shard(bool leaving, std::function<void()> done) {
  if (view().find(host_.self.id) == nullptr)
    return done();
  given_.push_back(std::move(done));
  if (giving_)
    return;
  auto members = view().members;
  std::erase_if(members, [this](const auto& m) { return m.id == host_.self.id; });
  // The hand-over goes in small pieces, so that the shard changes between two of them.
  directory::hand_over::options options;
  options.self = host_.self.id;
  options.replicas = cluster_.settings().replicas;
  options.leaving = leaving ? inc_ : incarnation{};
  options.until = cluster_.time().now() + hand_over_limit;
  options.in_flight_max = 2;
  options.batch_records = 4;
  options.places_per_step = 16;
  giving_.emplace(options, ring(), discovery::hash_ring(members));
  give_on();
}

/// Sends the records that the hand-over gives out now. When the hand-over has ended, calls the
/// callbacks that wait for its end.
void process::give_on() {
  for (auto& order : giving_->next(shard_, cluster_.time().now()))
    cluster_.ask(
        *this, incarnation_of(order.to),
        [records = std::move(order.records)](process& owner) {
          return owner.serve_publish(records);
        },
        batch_timeout,
        [this](const cluster::answer& said) {
          const auto taken = said ? said->size() : 0;
          cluster_.counts().handed_over += taken;
          giving_->settled(taken);
          give_on();
        });
  if (!giving_->done())
    return;
  giving_.reset();
  for (auto& done : std::exchange(given_, {}))
    done();
}

/// Passes withdrawals on to the new owners that may have been given the withdrawn records already.
void process::forward_withdrawals(const std::string& batch) {
  if (!giving_)
    return;
  for (auto& order : giving_->forward(batch))
    cluster_.ask(
        *this, incarnation_of(order.to),
        [records = std::move(order.records)](process& owner) {
          return owner.serve_withdraw(records);
        },
        batch_timeout, [](const cluster::answer&) {});
}

/// Returns the process of this node by the current view; zero when the node is not in the view.
incarnation process::incarnation_of(node_id id) const {
  const auto* member = view().find(id);
  return member != nullptr ? member->inc : incarnation{};
}

} // namespace peercache::scenario
