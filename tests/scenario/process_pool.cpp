// A node's pool: carries out the orders of its publisher with calls of the simulated cluster.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <type_traits>
#include <utility>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::publisher;

/// Longest time between two steps of the comparison of pages with the directory, so that pages
/// change between steps.
constexpr std::uint64_t steps_apart_max_us = 20'000;

/// Returns options by which the publisher works in small pieces, so that pages change between two
/// pieces.
directory::publisher_options process::publisher_options() const {
  const auto& settings = cluster_.settings();
  directory::publisher_options options;
  options.self = host_.self.id;
  options.inc = inc_;
  options.replicas = settings.replicas;
  options.directory_timeout = directory_timeout;
  options.republish_rate = settings.republish;
  options.mirrored_bytes_max = settings.granules / 4 * limits::granule_bytes;
  options.has_disk = options.write_through = settings.disk;
  options.repair.bytes_per_second = settings.repair ? 1u << 20 : 0;
  options.repair.pause = options.repair.settling = 1500ms;
  options.repair.collected_max = 8;
  options.withdrawals_max = options.disk_records_max = settings.waiting_max;
  options.chunk_pages = 64;
  options.walk_pages = std::min<std::uint32_t>(16, settings.waiting_max / 2);
  options.repair_granules = 16;
  return options;
}

void process::tick_pool() {
  pool_->reclaim();
  publisher_->evict_ahead([this](const storage::resident_page& page) { keep_on_disk(page); });
  publisher_->tick(cluster_.time().now());
  compare_on();
}

void process::compare_on() {
  compares_soon_ = false;
  const bool more = publisher_->compare_on(cluster_.time().now());
  carry_out_orders();
  if (more)
    compare_soon();
}

void process::compare_soon() {
  if (!std::exchange(compares_soon_, true))
    cluster_.later(*this, std::chrono::microseconds(cluster_.time().below(steps_apart_max_us)),
                   [](process& self) { self.compare_on(); });
}

void process::follow_view() {
  publisher::cluster next;
  next.view = {known_, &known_->view};
  next.ring = known_->ring;
  next.is_linked = [this](node_id id) { return cluster_.is_linked(*this, incarnation_of(id)); };
  publisher_->follow(std::move(next), cluster_.time().now());
  carry_out_orders();
}

void process::carry_out_orders() {
  publisher_->carry_out_orders([this](auto& each) { carry_out(each); });
  record_drops();
}

/// Has an owner carry out an order, and passes the answer to the publisher.
template <class Order, class Serve, class... More>
void process::ask_owner(Order& what, Serve serve, More... more) {
  const auto take = [this, id = what.id](const auto* said) {
    if (said != nullptr)
      publisher_->answered(id, *said, cluster_.time().now());
    else
      publisher_->failed(id, cluster_.time().now());
    carry_out_orders();
    if (std::is_same_v<Order, publisher::compare> || std::is_same_v<Order, publisher::list>)
      compare_soon();
  };
  cluster_.ask(*this, incarnation_of(what.owner), directory_timeout, take, serve,
               std::move(what.bytes), more...);
}

void process::carry_out(publisher::tell& order) {
  ask_owner(order, &process::serve_publish, directory::view_number{view().term, view().version});
}

void process::carry_out(publisher::take_back& order) {
  ask_owner(order, &process::serve_withdraw);
}

void process::carry_out(publisher::compare& order) {
  ask_owner(order, &process::serve_compare);
}

void process::carry_out(publisher::list& order) {
  ask_owner(order, &process::serve_list);
}

void process::carry_out(publisher::settled& order) {
  for (const auto& page : order.keep)
    keep_on_disk(page);
}

void process::carry_out(publisher::has_left& /*order*/) {
  step([](auto& machine, auto now) { return machine.leave(now); });
  cluster_.has_left(*this);
}

} // namespace peercache::scenario
