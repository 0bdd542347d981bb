// The publisher's part for comparing what this node holds with the directory's shards
// (directory/record_repair.hpp).

#include "common/assert.hpp"
#include "directory/publisher.hpp"

namespace peercache::directory {

bool publisher::compare_on(time_point now) {
  // Records that are still on their way to the directory would show up as differences.
  if (!publishes() || !unpublished_.empty() || !disk_records_.empty())
    return false;
  const auto next = repair_.tick(now, pool_.newest());
  const auto asked = last_tag_;
  std::visit([this](const auto& order) { carry_out(order); }, next);
  if (std::holds_alternative<record_repair::repair_owner>(next)) {
    publish_unpublished(now);
    publish_disk_records();
    return true;
  }
  return last_tag_ == asked && !std::holds_alternative<record_repair::nothing>(next);
}

void publisher::carry_out(const record_repair::walk_pages& order) {
  if (!order.on_disk)
    return compare_pool_pages(order.place);
  if (!options_.has_disk)
    return repair_.walked({}, 0);
  if (order.place == 0)
    repair_after_ = 0;
  orders_.push_back(walk_disk{open(of_repair_walk{}), repair_after_, options_.walk_pages});
}

void publisher::compare_pool_pages(std::uint64_t place) {
  std::vector<held_page> held;
  const auto next = pool_.walk(
      static_cast<std::uint32_t>(place), options_.repair_granules,
      [&](const storage::resident_page& page) {
        held.push_back({page.key, page.gen, tier::memory, page.length_bytes, page.checksum});
      });
  PEERCACHE_ASSERT(next == 0 || next > place);
  repair_.walked(held, next);
}

/// Hands a piece of the disk's pages to the comparison. Pages that are also in memory are left out,
/// because the walk over the pool reports them.
void publisher::compare_disk_pages(const std::string& pages, std::uint64_t last) {
  std::vector<held_page> held;
  const auto count = link::record_count<link::stored_page>(pages).value_or(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto page = link::record_at<link::stored_page>(pages, i);
    if (!pool_.find(page.key))
      held.push_back({page.key, {0}, tier::disk, page.length_bytes, page.checksum});
  }
  // A walk that stays in place would never end.
  PEERCACHE_ASSERT(last == 0 || last != repair_after_);
  repair_after_ = last;
  repair_.walked(held, last != 0 ? 1 : 0);
}

void publisher::carry_out(const record_repair::compare_with& order) {
  orders_.push_back(compare{{open(of_repair{}), order.owner, order.comparison}});
}

void publisher::carry_out(const record_repair::list_of& order) {
  orders_.push_back(list{{open(of_repair{}), order.owner, order.request}});
}

void publisher::hear(of_repair& /*about*/, const reply& said, time_point /*now*/) {
  if (said.number != nullptr)
    repair_.compared(*said.number);
  else if (said.bytes != nullptr)
    repair_.listed(*said.bytes);
  else
    repair_.failed();
}

void publisher::hear(of_repair_walk& /*about*/, const reply& said, time_point /*now*/) {
  PEERCACHE_ASSERT(!said.came()); // The pages of a walk arrive by `walked`.
  repair_.failed();
}

/// Repairs one owner's records. Pages that have left memory since they were collected are not
/// published; pages that have come back are not withdrawn.
void publisher::carry_out(const record_repair::repair_owner& order) {
  for (const auto& page : order.publish) {
    if (page.where == tier::disk)
      add_disk_record(page.key, page.gen, page.checksum, page.length_bytes);
    else
      unpublished_.add({page.key, order.owner});
  }
  auto batches = new_batches();
  for (const auto& record : order.withdraw) {
    const auto held = pool_.find(record.key);
    if (!held || held->gen > record.gen)
      batches.add_to(order.owner, 0, record);
  }
  for (auto& batch : batches.take())
    orders_.push_back(take_back{{open(of_nothing{}), batch.owner, std::move(batch.records)}});
}

} // namespace peercache::directory
