#include "client/calls/set_plan.hpp"

#include "client/calls/page_length.hpp"
#include "common/assert.hpp"
#include "common/page_origin.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

using link::append_record;
using link::no_slot;

/// Bytes that one client may keep reserved between two sets.
constexpr std::uint64_t lease_bytes_max = 32u << 20;
constexpr std::uint64_t lease_share_of_pool = 64;
constexpr std::uint64_t lease_batches = 16;

} // namespace

slots_to_lease::slots_to_lease(std::uint64_t pages_of_set, std::uint64_t bytes_of_slot,
                               std::uint64_t pool_bytes) noexcept
    : at_rest(pages_of_set * lease_batches),
      most(std::min(lease_bytes_max, pool_bytes / lease_share_of_pool) / bytes_of_slot) {
  at_rest = std::min(at_rest, most);
}

set_plan::set_plan(std::span<const set_page> pages, std::span<page_result> results)
    : pages_(pages), results_(results), slots_(pages.size(), no_slot), checksums_(pages.size()) {
  PEERCACHE_ASSERT(pages.size() == results.size());
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    results_[i] = {};
    results_[i].length_bytes = client::length_of(pages_[i].parts);
    if (results_[i].length_bytes == 0)
      results_[i].status = page_status::bad_size;
  }
}

bool set_plan::is_here(std::size_t index) {
  if (results_[index].status != page_status::pending)
    return false;
  PEERCACHE_ASSERT(slots_[index] == no_slot);
  results_[index].status = page_status::duplicate;
  return true;
}

std::uint64_t set_plan::bytes() const noexcept {
  std::uint64_t all = 0;
  for (const auto& result : results_)
    if (result.status == page_status::pending)
      all += result.length_bytes;
  return all;
}

void set_plan::fail(page_status reason) {
  PEERCACHE_ASSERT(!is_success(reason) && reason != page_status::pending);
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (results_[i].status == page_status::pending) {
      PEERCACHE_ASSERT(slots_[i] == no_slot);
      results_[i].status = reason;
    }
}

std::vector<std::uint32_t> set_plan::without_slot() const {
  std::vector<std::uint32_t> without;
  for (std::uint32_t i = 0; i < pages_.size(); ++i)
    if (results_[i].status == page_status::pending && slots_[i] == no_slot)
      without.push_back(i);
  return without;
}

void set_plan::lease(std::uint32_t index, slot_id slot) {
  PEERCACHE_ASSERT(results_[index].status == page_status::pending && slots_[index] == no_slot);
  slots_[index] = slot;
}

std::string set_plan::ask() {
  PEERCACHE_ASSERT(asked_.empty());
  asked_ = without_slot();
  std::string lengths;
  for (const auto index : asked_)
    append_record(lengths, results_[index].length_bytes);
  return lengths;
}

bool set_plan::lacks_space() const noexcept {
  return std::any_of(results_.begin(), results_.end(),
                     [](const auto& each) { return each.status == page_status::no_space; });
}

std::string set_plan::ask_again() {
  for (auto& result : results_)
    if (result.status == page_status::no_space)
      result.status = page_status::pending;
  return ask();
}

void set_plan::take_slots(std::string_view slots, page_status why_not) {
  const auto count = slots.size() / sizeof(slot_id);
  PEERCACHE_ASSERT(count <= asked_.size());
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const auto slot = i < count ? link::record_at<slot_id>(slots, i) : no_slot;
    if (slot != no_slot)
      lease(asked_[i], slot);
    else
      results_[asked_[i]].status =
          why_not == page_status::pending ? page_status::no_space : why_not;
  }
  asked_.clear();
}

std::vector<set_plan::page> set_plan::to_fill() const {
  std::vector<page> pages;
  pages.reserve(pages_.size());
  for (std::uint32_t i = 0; i < pages_.size(); ++i)
    if (results_[i].status == page_status::pending && slots_[i] != no_slot)
      pages.push_back({i, slots_[i]});
  return pages;
}

void set_plan::filled(std::uint32_t index, std::uint64_t checksum) {
  PEERCACHE_ASSERT(results_[index].status == page_status::pending && slots_[index] != no_slot);
  checksums_[index] = checksum;
  results_[index].status = page_status::stored;
  results_[index].origin = page_origin::own_host;
}

void set_plan::too_late(std::uint32_t index) {
  PEERCACHE_ASSERT(results_[index].status == page_status::pending && slots_[index] != no_slot);
  results_[index].status = page_status::timed_out;
  append_record(unfilled_, std::exchange(slots_[index], no_slot));
}

std::string set_plan::commit(const make_readable& publish) {
  std::string packed;
  packed.reserve(pages_.size() * sizeof(link::filled_slot));
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    PEERCACHE_ASSERT(results_[i].status != page_status::pending);
    if (results_[i].status != page_status::stored)
      continue;
    PEERCACHE_ASSERT(slots_[i] != no_slot);
    link::filled_slot filled;
    filled.key = pages_[i].key;
    filled.slot = std::exchange(slots_[i], no_slot);
    filled.length_bytes = results_[i].length_bytes;
    filled.checksum = checksums_[i];
    if (publish(filled)) {
      append_record(packed, filled);
    } else {
      results_[i].status = page_status::refused;
      results_[i].origin = page_origin::none;
      append_record(unfilled_, filled.slot);
    }
  }
  PEERCACHE_ASSERT(
      std::all_of(slots_.begin(), slots_.end(), [](slot_id slot) { return slot == no_slot; }));
  return packed;
}

std::string set_plan::take_unfilled() {
  return std::exchange(unfilled_, {});
}

} // namespace peercache::client
