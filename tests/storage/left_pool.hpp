#pragma once

#include "common/checksum.hpp"
#include "heap_pool.hpp"
#include "storage/eviction_policy.hpp"
#include "storage/page_pool.hpp"
#include "storage/pool_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace peercache::storage {

/// Returns options of a pool that only the test of this name uses, which leaves the pool behind and
/// takes it over.

inline pool_memory_options pool_options_for(const std::string& test) {
  return {.name_prefix = "peercache-test-" + test + "-" + std::to_string(::getpid()),
          .cluster_name = "cluster",
          .node_name = "node 1",
          .owner = incarnation::random(),
          .size_bytes = 8u << 20};
}

inline std::unique_ptr<page_pool> pool_of(slot_table slots, const page_pool_options& options = {}) {
  const auto bytes = std::uint64_t{slots.granules()} * limits::granule_bytes;
  return std::make_unique<page_pool>(slots, make_eviction_policy(eviction_kind::lru, bytes),
                                     options);
}

/// Fills memory with bytes that follow from `number`.
inline void fill_bytes(std::span<std::byte> bytes, std::uint64_t number) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(number * 31 + i * 7 + (i >> 8));
}

inline bool is_all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == std::byte{0}; });
}

/// Reserves a slot and fills it as an engine does.
inline fill filled(page_pool& pool, slot_table slots, std::uint64_t number,
                   std::uint32_t length_bytes) {
  std::vector<evicted> victims;
  const auto slot = pool.reserve(length_bytes, victims);
  EXPECT_TRUE(slot);
  const auto bytes = slots.bytes(*slot, length_bytes);
  fill_bytes(bytes, number);
  const fill page{*slot, key_of(number), length_bytes, checksum_of(bytes)};
  slots.fill(page.slot, page.key, page.length_bytes, page.checksum);
  return page;
}

inline slot_id put(page_pool& pool, slot_table slots, std::uint64_t number,
                   std::uint32_t length_bytes) {
  const auto page = filled(pool, slots, number, length_bytes);
  commit_outcome outcome;
  pool.commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
  EXPECT_EQ(outcome.status, page_status::stored);
  return outcome.slot;
}

/// Whether the pool has the page of this number and length, with the right bytes.
inline bool holds(const page_pool& pool, const slot_table& slots, std::uint64_t number,
                  std::uint32_t length_bytes) {
  const auto page = pool.find(key_of(number));
  if (!page || page->length_bytes != length_bytes)
    return false;
  std::vector<std::byte> expected(length_bytes);
  fill_bytes(expected, number);
  const auto bytes = slots.bytes(page->slot, length_bytes);
  return slots.check(page->slot, page->gen, page->key, length_bytes) == page_status::hit &&
         std::memcmp(bytes.data(), expected.data(), length_bytes) == 0;
}

/// Runs `body` in a forked process and returns how that process ended, as waitpid tells it.
inline int status_of(const std::function<void()>& body) {
  const auto process = ::fork();
  if (process == 0) {
    body();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return status;
}

inline bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/// Makes a pool in a forked process, which runs `body` and is then killed: the pool is left behind.
inline void leave_pool(const pool_memory_options& options,
                       const std::function<void(page_pool&, slot_table)>& body,
                       const page_pool_options& how = {}) {
  auto crashed = options;
  crashed.owner = incarnation::random();
  ASSERT_TRUE(was_killed(status_of([&] {
    auto memory = pool_memory::create(crashed);
    if (!memory)
      ::_exit(1);
    auto pool = pool_of(memory->slots(), how);
    body(*pool, memory->slots());
    (void)std::raise(SIGKILL);
  })));
}

/// Takes over a pool as a node does: surveys it, and adopts all its intact pages.
struct adopted_pool {
  explicit adopted_pool(slot_table of, const page_pool_options& options = {})
      : slots(of), remains(survey(of)), pool(pool_of(of, options)) {
    pool->claim(remains);
    remains_check check(slots, remains.extents);
    for (auto compared = check.next(1 << 20); !compared.empty(); compared = check.next(1 << 20))
      for (const auto& page : compared)
        if (page.intact)
          adopted += pool->adopt({&page.slot, 1}).size();
        else
          pool->give_back(page.slot);
  }

  /// Gives back what clients of the dead process were filling, as a node does when they are dead.
  void end_fills() {
    for (const auto& extent : remains.extents)
      if (extent.as == claimed_extent::use::being_filled)
        pool->give_back(extent.slot);
  }

  slot_table slots;
  pool_remains remains;
  std::unique_ptr<page_pool> pool;
  std::size_t adopted = 0;
};

} // namespace peercache::storage
