// A node's comparison with the shards of the directory: as actors/pool_repair.cpp, a step at a
// time.

#include "directory/shard_repair.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

using namespace std::chrono_literals;
using actors::held_page;
using actors::record_repair;

namespace {

/// Pieces of a pool and of a disk that one step looks at: small, so that they change meanwhile.
constexpr std::uint32_t granules_per_step = 16;
constexpr std::size_t disk_pages_per_step = 16;
constexpr auto repair_timeout = 1000ms;
constexpr std::uint64_t steps_apart_max_us = 20'000;

} // namespace

actors::record_repair::options process::repair_options() const {
  record_repair::options options;
  options.self = host_.self.id;
  options.inc = inc_;
  options.replicas = cluster_.settings().replicas;
  options.bytes_per_second = cluster_.settings().repair ? 1u << 20 : 0;
  options.pause = 1500ms;
  options.settling = 1500ms;
  options.collected_max = 8;
  return options;
}

void process::repair_follow() {
  std::vector<node_id> owners;
  for (const auto& member : view().members)
    if (!member.draining)
      owners.push_back(member.id);
  repair_.follow(ring(), std::move(owners), cluster_.time().now());
}

void process::repair_on() {
  if (!joined() || !unpublished_.empty() || !disk_records_.empty())
    return;
  auto next = repair_.tick(cluster_.time().now(), pool_->newest());
  if (std::holds_alternative<record_repair::nothing>(next))
    return;
  std::visit([this](const auto& order) { carry_out(order); }, next);
  if (!std::holds_alternative<record_repair::compare_with>(next) &&
      !std::holds_alternative<record_repair::list_of>(next))
    repair_soon();
}

/// What comes between two steps happens to the pages, too.
void process::repair_soon() {
  const auto pause = std::chrono::microseconds(cluster_.time().below(steps_apart_max_us));
  cluster_.later(*this, pause, [](process& self) { self.repair_on(); });
}

void process::carry_out(const record_repair::walk_pages& order) {
  std::vector<held_page> held;
  if (!order.on_disk) {
    auto next = pool_->walk(static_cast<std::uint32_t>(order.place), granules_per_step,
                            [&](const storage::resident_page& page) {
                              held.push_back({page.key, page.gen, directory::tier::memory,
                                              page.length_bytes, page.checksum});
                            });
    return repair_.walked(held, next);
  }
  auto at = order.place == 0 ? host_.disk.begin() : host_.disk.upper_bound(repair_after_);
  for (std::size_t i = 0; at != host_.disk.end() && i < disk_pages_per_step; ++i, ++at) {
    repair_after_ = at->first;
    if (!pool_->find(at->first))
      held.push_back({at->first, {0}, directory::tier::disk, 64, 0});
  }
  repair_.walked(held, at != host_.disk.end() ? 1 : 0);
}

void process::carry_out(const record_repair::compare_with& order) {
  cluster_.ask(
      *this, ring().incarnation_of(order.owner),
      [comparison = order.comparison](process& owner) { return owner.serve_compare(comparison); },
      repair_timeout,
      [this](const cluster::answer& said) {
        if (said)
          repair_.compared(std::stoull(*said));
        else
          repair_.failed();
        repair_soon();
      });
}

void process::carry_out(const record_repair::list_of& order) {
  cluster_.ask(
      *this, ring().incarnation_of(order.owner),
      [request = order.request](process& owner) { return owner.serve_list(request); },
      repair_timeout,
      [this](const cluster::answer& said) {
        if (said)
          repair_.listed(*said);
        else
          repair_.failed();
        repair_soon();
      });
}

/// What has left memory since it was collected is not published, and what has come back is not
/// withdrawn.
void process::carry_out(const record_repair::repair_owner& order) {
  for (const auto& page : order.publish) {
    if (page.where == directory::tier::disk)
      add_disk_record(page.key, page.gen);
    else
      unpublished_.add({page.key, order.owner});
  }
  actors::owner_batches batches{ring(), cluster_.settings().replicas};
  for (const auto& record : order.withdraw) {
    const auto held = pool_->find(record.key);
    if (!held || held->gen > record.gen)
      batches.add_to(order.owner, 0, record);
  }
  for (auto& batch : batches.take())
    cluster_.ask(
        *this, ring().incarnation_of(batch.owner),
        [records = std::move(batch.records)](process& owner) {
          return owner.serve_withdraw(records);
        },
        repair_timeout, [](const cluster::answer&) {});
  publish_unpublished();
  publish_disk_records();
}

std::string process::serve_compare(const std::string& comparison) const {
  auto differing = directory::compare_digests(shard_, comparison);
  return differing ? std::to_string(*differing) : std::string("0");
}

std::string process::serve_list(const std::string& request) const {
  auto listed = directory::list_records(shard_, request);
  return listed ? *listed : std::string{};
}

} // namespace peercache::scenario
