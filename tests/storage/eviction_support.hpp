#pragma once

#include "storage/eviction_policy.hpp"
#include "storage/probe_cells.hpp"

#include <cstring>
#include <map>
#include <vector>

namespace peercache::storage {

/// A key for a number, with a digest as uniform as that of real keys.
inline page_key key_number(std::uint64_t number) {
  page_key key;
  const std::uint64_t digest = mixed(number + 1);
  std::memcpy(key.bytes.data(), &digest, sizeof digest);
  return key;
}

/// Does what the pool does with a policy: gives pages slots, makes room by the policy's victims,
/// touches pages that are resident.
class tested_pool {
public:
  tested_pool(eviction_policy& policy, std::uint64_t capacity_bytes)
      : policy_(policy), capacity_bytes_(capacity_bytes) {}

  bool contains(std::uint64_t page) const { return slots_.count(page) != 0; }

  /// Refers to a page; returns whether it was resident.
  bool use(std::uint64_t page, std::uint32_t length_bytes = 1) {
    if (const auto found = slots_.find(page); found != slots_.end()) {
      policy_.touch(found->second.slot);
      return true;
    }
    while (used_bytes_ + length_bytes > capacity_bytes_) {
      evict();
    }
    // Slots are sparse and never the same twice, so that a policy can tell pages by nothing but
    // what it was told.
    const slot_id slot{next_slot_ += 512};
    policy_.insert(slot, key_number(page), length_bytes);
    slots_[page] = {slot, length_bytes};
    pages_[slot] = page;
    used_bytes_ += length_bytes;
    return false;
  }

  /// Refers to the pages of a prefix chain, from last to first as `eviction_policy` asks for.
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

/// How many resident pages are without the page before them in their chain. Page numbers of a chain
/// follow each other, and its head's number is a multiple of `chain_length`.
inline std::size_t stranded_pages(const tested_pool& pool, std::uint64_t chain_length) {
  std::size_t count = 0;
  for (const std::uint64_t page : pool.pages()) {
    count += page % chain_length != 0 && !pool.contains(page - 1) ? 1 : 0;
  }
  return count;
}

/// The numbers of the first `length` pages of a chain.
inline std::vector<std::uint64_t> chain_of(std::uint64_t chain, std::uint64_t chain_length,
                                           std::uint64_t length) {
  std::vector<std::uint64_t> pages;
  for (std::uint64_t i = 0; i < length; ++i) {
    pages.push_back(chain * chain_length + i);
  }
  return pages;
}

} // namespace peercache::storage
