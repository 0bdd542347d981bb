#pragma once

#include "common/ids.hpp"
#include "storage/page_table.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace peercache::storage {

/// A cache without pages: it tells what hit rate `Policy` would have on the references that it is
/// shown. A page is named by 32 bits of its mixed digest instead of a slot; among a few thousand
/// keys, a key has the name of another one once in a million.
///
/// Threads: one. Units: bytes.
template <class Policy>
class shadow_cache {
public:
  shadow_cache(Policy policy, std::uint64_t capacity_bytes)
      : policy_(std::move(policy)), capacity_bytes_(capacity_bytes) {}

  /// Refers to a page and returns whether that is a hit. A miss puts the page into the cache,
  /// unless the page is larger than the cache.
  bool reference(std::uint64_t key_digest, std::uint32_t length_bytes) {
    const slot_id name{static_cast<std::uint32_t>(mixed(key_digest) >> 32)};
    if (policy_.pages().find(name) != node_index::none) {
      policy_.touch(name);
      return true;
    }
    if (length_bytes > capacity_bytes_) {
      full_ = true;
      return false;
    }
    make_room(length_bytes);
    policy_.insert_digest(name, key_digest, length_bytes);
    return false;
  }

  /// Erases the pages for whose digest `keeps` is false.
  template <class Predicate>
  void keep_only(Predicate keeps) {
    for (const slot_id name : policy_.pages().slots()) {
      if (!keeps(policy_.pages()[policy_.pages().find(name)].key_digest)) {
        policy_.erase(name);
      }
    }
  }

  /// Gives the cache another capacity and evicts pages that no longer fit.
  void resize(std::uint64_t capacity_bytes) {
    capacity_bytes_ = capacity_bytes;
    if constexpr (requires { policy_.resize(capacity_bytes); }) {
      policy_.resize(capacity_bytes);
    }
    make_room(0);
    full_ = false;
  }

  /// Whether a miss had to evict since the last `resize`, or was of a page larger than the cache.
  bool is_full() const noexcept { return full_; }
  std::size_t size() const noexcept { return policy_.pages().size(); }
  std::size_t memory_bytes() const noexcept { return policy_.memory_bytes(); }

private:
  void make_room(std::uint64_t length_bytes) {
    while (policy_.bytes() + length_bytes > capacity_bytes_) {
      full_ = true;
      policy_.victim();
    }
  }

  Policy policy_;
  std::uint64_t capacity_bytes_;
  bool full_ = false;
};

} // namespace peercache::storage
