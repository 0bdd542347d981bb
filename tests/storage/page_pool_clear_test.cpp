// Tests of what a page_pool does with pages whose space was cleared after they were set.

#include "common/test_guards.hpp"
#include "heap_pool.hpp"
#include "storage/page_pool.hpp"
#include "storage/pool_remains.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace peercache::storage::page_pool_clear_test {
namespace {

class cleared_pool_test : public testing::Test {
protected:
  static constexpr std::uint32_t granule = limits::granule_bytes;
  std::unique_ptr<heap_pool> memory;
  std::unique_ptr<page_pool> pool;
  std::unique_ptr<epoch_block> block = std::make_unique<epoch_block>();
  epoch_table epochs{*block};
  page_key key = key_space{}.key_of("page");

  void SetUp() override {
    memory = std::make_unique<heap_pool>(8);
    make_pool();
  }
  void make_pool() {
    page_pool_options options{.free_low_bytes = 1, .free_high_bytes = 1, .epochs = epochs};
    pool = std::make_unique<page_pool>(
        memory->slots(), make_eviction_policy(eviction_kind::lru, 8 * std::uint64_t{granule}),
        options);
  }
  page_status commit(fill_origin from) {
    std::vector<evicted> victims;
    const fill page{*pool->reserve(granule, victims), key, granule, 1};
    memory->slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    commit_outcome outcome;
    pool->commit({&page, 1}, {&outcome, 1}, from);
    return outcome.status;
  }
};

TEST_F(cleared_pool_test, a_page_whose_space_was_cleared_since_its_set_began_is_not_taken_in) {
  epochs.raise(space_of(key), 1);
  for (const auto from : {fill_origin::producer, fill_origin::copy}) {
    EXPECT_EQ(commit(from), page_status::stale);
    EXPECT_FALSE(pool->find(key));
    EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes()) << "its slot is free";
  }
  set_epoch(key, 1);
  EXPECT_EQ(commit(fill_origin::producer), page_status::stored);
}

TEST_F(cleared_pool_test, without_its_guard_such_a_page_is_taken_in) {
  epochs.raise(space_of(key), 1);
  guard_switched_off off(guard::epoch);
  EXPECT_EQ(commit(fill_origin::producer), page_status::stored);
}

TEST_F(cleared_pool_test, a_page_that_a_process_before_has_left_is_not_adopted_after_a_clear) {
  ASSERT_EQ(commit(fill_origin::producer), page_status::stored);
  const auto slot = pool->find(key)->slot;
  epochs.raise(space_of(key), 1);
  make_pool(); // Makes a new pool on the same memory, as the next process of a node does.
  pool->claim(survey(memory->slots()));
  EXPECT_TRUE(pool->adopt({&slot, 1}).empty());
  EXPECT_FALSE(pool->find(key));
  pool->scrub(UINT64_MAX);
  EXPECT_EQ(pool->stats().free_bytes, pool->capacity_bytes());
}

} // namespace
} // namespace peercache::storage::page_pool_clear_test
