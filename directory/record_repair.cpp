#include "directory/record_repair.hpp"

#include "common/assert.hpp"
#include "directory/shard_repair.hpp"

#include <array>
#include <utility>

namespace peercache::directory {
namespace {

/// Bytes of the budget that each walked page costs: walking takes time, though no network.
constexpr std::size_t bytes_per_walked_page = 8;

constexpr std::uint64_t bit(std::uint32_t range) noexcept {
  return std::uint64_t{1} << range;
}

} // namespace

record_repair::record_repair(const options& opts)
    : options_(opts), budget_(opts.bytes_per_second, opts.bytes_per_second) {
  PEERCACHE_ASSERT(opts.replicas >= 1 && opts.replicas <= discovery::hash_ring::replicas_max);
}

void record_repair::follow(const discovery::hash_ring& ring, std::vector<node_id> owners,
                           time_point now) {
  ring_ = ring;
  owners_ = std::move(owners);
  left_out_.clear();
  give_up_pass();
  next_pass_ = now + options_.settling;
}

/// Ends the pass unfinished: forgets its digests and the pages that it has collected, which would
/// be out of date in the next pass.
void record_repair::give_up_pass() {
  phase_ = phase::idle;
  digests_.clear();
  collected_.clear();
  dead_.clear();
}

void record_repair::charge(std::size_t bytes) {
  budget_.spend(bytes);
  totals_.bytes += bytes;
}

void record_repair::begin_walk(phase next) {
  PEERCACHE_ASSERT(!waiting_ && (next == phase::sum || next == phase::collect));
  phase_ = next;
  walk_ = {};
}

record_repair::action record_repair::tick(time_point now, generation newest) {
  if (waiting_ || options_.bytes_per_second == 0 || ring_.empty() || budget_.left(now) == 0)
    return nothing{};
  switch (phase_) {
  case phase::idle:
    if (now < next_pass_)
      return nothing{};
    next_pass_ = now + options_.pause;
    for (auto owner : owners_)
      digests_[owner] = {};
    begin_walk(phase::sum);
    [[fallthrough]];
  case phase::sum:
    waiting_ = true;
    return walk_;
  case phase::compare:
    return compare_next();
  case phase::collect:
    if (walk_.place == 0 && !walk_.on_disk)
      collected_at_ = newest;
    waiting_ = true;
    return walk_;
  case phase::list: {
    waiting_ = true;
    auto request = encode({options_.inc, ranges_, list_place_});
    charge(request.size());
    return list_of{owner_, std::move(request)};
  }
  case phase::repair:
    return repair();
  }
  return nothing{};
}

void record_repair::add_to_digests(const held_page& page) {
  std::array<node_id, discovery::hash_ring::replicas_max> owners;
  auto count = ring_.owners(page.key, std::span(owners).first(options_.replicas));
  const auto fact = fact_digest(page.key, page.gen, page.where);
  for (std::size_t i = 0; i < count; ++i)
    digests_[owners[i]][range_of(page.key.prefix())].add(fact);
}

bool record_repair::is_of_owner(const page_key& key) const {
  return (ranges_ & bit(range_of(key.prefix()))) != 0 && ring_.owns(owner_, key, options_.replicas);
}

void record_repair::walked(std::span<const held_page> pages, std::uint64_t next_place) {
  if (!std::exchange(waiting_, false) || (phase_ != phase::sum && phase_ != phase::collect))
    return;
  budget_.spend(pages.size() * bytes_per_walked_page);
  for (const auto& page : pages)
    if (phase_ == phase::sum)
      add_to_digests(page);
    else if (is_of_owner(page.key))
      collected_.try_emplace(page.key, page);
  walk_.place = next_place;
  if (next_place != 0)
    return;
  if (!walk_.on_disk) {
    walk_.on_disk = true;
  } else if (phase_ == phase::sum) {
    phase_ = phase::compare;
  } else {
    phase_ = phase::list;
    list_place_ = 0;
  }
}

record_repair::action record_repair::compare_next() {
  if (digests_.empty()) {
    ++totals_.passes;
    phase_ = phase::idle;
    return nothing{};
  }
  // Nothing is left of the repair of the previous owner.
  PEERCACHE_ASSERT(collected_.empty() && dead_.empty());
  owner_ = digests_.begin()->first;
  waiting_ = true;
  auto comparison = comparison_of(options_.inc, digests_.begin()->second);
  charge(comparison.size());
  return compare_with{owner_, std::move(comparison)};
}

void record_repair::leave_owner() {
  const auto left = digests_.erase(owner_);
  PEERCACHE_ASSERT(left == 1);
  collected_.clear();
  dead_.clear();
  phase_ = phase::compare;
}

void record_repair::compared(std::uint64_t differing_ranges) {
  if (!std::exchange(waiting_, false) || phase_ != phase::compare)
    return;
  if (differing_ranges == 0)
    return leave_owner();
  totals_.differing_ranges += static_cast<std::uint64_t>(std::popcount(differing_ranges));
  choose_ranges(differing_ranges);
  begin_walk(phase::collect);
}

/// Chooses as many ranges as may be collected at once; the next pass with this owner begins with
/// the first range left out. Some ranges differ for ever, because an owner takes only a limited
/// number of locations of a key: such ranges must not keep other ranges from their turn.
void record_repair::choose_ranges(std::uint64_t differing) {
  const auto& digest = digests_.at(owner_);
  const auto first = left_out_[owner_];
  PEERCACHE_ASSERT(first < digest_ranges);
  std::uint64_t pages = 0;
  ranges_ = 0;
  for (std::uint32_t i = 0; i < digest_ranges; ++i) {
    const auto range = (first + i) % digest_ranges;
    if ((differing & bit(range)) == 0)
      continue;
    pages += digest[range].count;
    if (ranges_ != 0 && pages > options_.collected_max) {
      left_out_[owner_] = range;
      return;
    }
    ranges_ |= bit(range);
  }
  PEERCACHE_ASSERT(ranges_ != 0); // `compared` calls this only if some range differs.
}

/// Compares the owner's record of one key with the page of that key that was collected.
void record_repair::judge(const withdraw_record& record) {
  if (record.holder != options_.inc || !is_of_owner(record.key))
    return;
  auto found = collected_.find(record.key);
  if (record.gen > collected_at_) {
    if (found != collected_.end())
      // The owner's record is newer than the collected page: nothing to repair.
      collected_.erase(found);
    return;
  }
  if (found == collected_.end()) {
    dead_.push_back(record);
    return;
  }
  auto& held = found->second;
  if (held.where == tier::disk && record.where == tier::memory)
    // The page left memory for disk. Of two records with one generation the one that says `disk` is
    // newer, so the page is published with the record's generation.
    held.gen = record.gen;
  else if (held.where == tier::disk || record.gen >= held.gen)
    collected_.erase(found);
}

void record_repair::listed(std::string_view answer) {
  if (!std::exchange(waiting_, false) || phase_ != phase::list)
    return;
  charge(answer.size());
  auto parts = split_list(answer);
  if (!parts)
    return leave_owner();
  withdraw_reader reader(parts->records);
  withdraw_record record;
  while (reader.next(record))
    judge(record);
  list_place_ = parts->next_place;
  if (list_place_ == 0)
    phase_ = phase::repair;
}

record_repair::action record_repair::repair() {
  PEERCACHE_ASSERT(!waiting_ && phase_ == phase::repair && list_place_ == 0);
  repair_owner order;
  order.owner = owner_;
  for (auto& [key, page] : collected_)
    order.publish.push_back(page);
  order.withdraw = std::move(dead_);
  totals_.published += order.publish.size();
  totals_.withdrawn += order.withdraw.size();
  charge(order.publish.size() * wire::publish_record_bytes +
         order.withdraw.size() * wire::withdraw_record_bytes);
  leave_owner();
  return order;
}

void record_repair::failed() {
  if (!std::exchange(waiting_, false))
    return;
  if (phase_ == phase::compare || phase_ == phase::list)
    leave_owner();
  else
    give_up_pass();
}

} // namespace peercache::directory
