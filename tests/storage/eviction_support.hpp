#pragma once

#include "storage/eviction_policy.hpp"
#include "storage/probe_cells.hpp"

#include <cstring>
#include <map>
#include <vector>

namespace peercache::storage {

/// Returns the key with this number; its bits are as uniform as those of real keys' digests.
inline page_key key_number(std::uint64_t number) {
  page_key key;
  const std::uint64_t digest = mixed(number + 1);
  std::memcpy(key.bytes.data(), &digest, sizeof digest);
  return key;
}

/// Drives an eviction policy as the pool does: gives pages slots, evicts the policy's victims to
/// make room, touches pages that are resident.
class tested_pool {
public:
  tested_pool(eviction_policy& policy, std::uint64_t capacity_bytes)
      : policy_(policy), capacity_bytes_(capacity_bytes) {}

  bool contains(std::uint64_t page) const { return slots_.count(page) != 0; }

  /// Uses a page, which becomes resident. Returns whether it was resident before.
  bool use(std::uint64_t page, std::uint32_t length_bytes = 1) {
    if (const auto found = slots_.find(page); found != slots_.end()) {
      policy_.touch(found->second.slot);
      return true;
    }
    while (used_bytes_ + length_bytes > capacity_bytes_) {
      evict();
    }
    // Slot numbers are sparse and never repeat, so that a policy cannot rely on them being dense or
    // reused.
    const slot_id slot{next_slot_ += 512};
    policy_.insert(slot, key_number(page), length_bytes);
    slots_[page] = {slot, length_bytes};
    pages_[slot] = page;
    used_bytes_ += length_bytes;
    return false;
  }

  /// Uses the pages of a prefix chain, from last to first as `eviction_policy` requires.
  void use_chain(const std::vector<std::uint64_t>& pages) {
    for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
      use(*page);
    }
  }

  std::uint64_t evict() {
    const auto slot = policy_.victim();
    PEERCACHE_ASSERT(slot && pages_.count(*slot) == 1);
    return forget(pages_.at(*slot));
  }

  void erase(std::uint64_t page) {
    policy_.erase(slots_.at(page).slot);
    forget(page);
  }

  std::size_t size() const { return slots_.size(); }
  std::vector<std::uint64_t> pages() const {
    std::vector<std::uint64_t> pages;
    for (const auto& [page, where] : slots_) {
      pages.push_back(page);
    }
    return pages;
  }

private:
  struct place {
    slot_id slot;
    std::uint32_t length_bytes;
  };

  std::uint64_t forget(std::uint64_t page) {
    used_bytes_ -= slots_.at(page).length_bytes;
    pages_.erase(slots_.at(page).slot);
    slots_.erase(page);
    return page;
  }

  eviction_policy& policy_;
  std::uint64_t capacity_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint32_t next_slot_ = 0;
  std::map<std::uint64_t, place> slots_;
  std::map<slot_id, std::uint64_t> pages_;
};

/// Returns how many resident pages lack the page before them in their chain. Pages of a chain have
/// consecutive numbers, from a multiple of `chain_length` on.
inline std::size_t stranded_pages(const tested_pool& pool, std::uint64_t chain_length) {
  std::size_t count = 0;
  for (const std::uint64_t page : pool.pages()) {
    count += page % chain_length != 0 && !pool.contains(page - 1) ? 1 : 0;
  }
  return count;
}

/// Returns the numbers of the first `length` pages of a chain.
inline std::vector<std::uint64_t> chain_of(std::uint64_t chain, std::uint64_t chain_length,
                                           std::uint64_t length) {
  std::vector<std::uint64_t> pages;
  for (std::uint64_t i = 0; i < length; ++i) {
    pages.push_back(chain * chain_length + i);
  }
  return pages;
}

} // namespace peercache::storage
