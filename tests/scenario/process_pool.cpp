// A node's pool: carries out the orders of its publisher with calls of the simulated cluster.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::publisher;

namespace {

/// Longest time between two steps of the comparison: pages should change in between.
constexpr std::uint64_t steps_apart_max_us = 20'000;

} // namespace

/// Returns options with small pieces everywhere, so that pages change between two pieces.
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

void process::ask_owner(publisher::tag id, node_id owner, std::function<std::string(process&)> what,
                        said_as form, bool goes_on) {
  cluster_.ask(*this, incarnation_of(owner), std::move(what), directory_timeout,
               [this, id, form, goes_on](const cluster::answer& said) {
                 const auto now = cluster_.time().now();
                 if (!said)
                   publisher_->failed(id, now);
                 else if (form == said_as::number)
                   publisher_->answered(id, std::stoull(*said), now);
                 else
                   publisher_->answered(id, *said, now);
                 carry_out_orders();
                 if (goes_on)
                   compare_soon();
               });
}

void process::carry_out(publisher::tell& order) {
  ask_owner(
      order.id, order.owner,
      [records = std::move(order.bytes),
       known = directory::view_number{view().term, view().version}](process& owner) {
        return owner.serve_publish(records, known);
      },
      said_as::records, false);
}

void process::carry_out(publisher::take_back& order) {
  ask_owner(
      order.id, order.owner,
      [records = std::move(order.bytes)](process& owner) { return owner.serve_withdraw(records); },
      said_as::number, false);
}

void process::carry_out(publisher::compare& order) {
  ask_owner(
      order.id, order.owner,
      [sums = std::move(order.bytes)](process& owner) { return owner.serve_compare(sums); },
      said_as::number, true);
}

void process::carry_out(publisher::list& order) {
  ask_owner(
      order.id, order.owner,
      [what = std::move(order.bytes)](process& owner) { return owner.serve_list(what); },
      said_as::records, true);
}

void process::carry_out(publisher::settled& order) {
  for (const auto& page : order.keep)
    keep_on_disk(page);
}

void process::carry_out(publisher::has_left& /*order*/) {
  step([](auto& machine, auto now) { return machine.leave(now); });
  cluster_.has_left(*this);
}

/// Records the pages that have left memory since the last call.
void process::record_drops() {
  auto* record = cluster_.record();
  if (record == nullptr)
    return;
  const auto before = std::exchange(recorded_, {});
  pool_->for_each_page([this](const auto& page) { recorded_.insert(page.key); });
  for (const auto& key : before)
    if (!recorded_.contains(key))
      record->drop(cluster_.time().now(), to_string(inc_), key);
}

std::uint32_t process::pins() const {
  std::uint32_t all = 0;
  for (std::uint32_t i = 0; i < slots_.granules(); ++i)
    all += entries_[i].pins.load();
  return all;
}

} // namespace peercache::scenario
