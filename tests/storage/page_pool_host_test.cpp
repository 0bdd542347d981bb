// Tests of how the processes of a host find pages of a page_pool by the host index, and of pages of
// one key that differ in length.

#include "heap_pool.hpp"
#include "storage/page_pool.hpp"

#include <gtest/gtest.h>

namespace peercache::storage::page_pool_host_test {
namespace {

constexpr std::uint32_t granule = limits::granule_bytes;

class page_pool_on_host : public testing::Test {
protected:
  void make(std::uint32_t granules) {
    memory = std::make_unique<heap_pool>(granules, false);
    const page_pool_options options{.free_low_bytes = 1, .free_high_bytes = 1};
    pool = std::make_unique<page_pool>(
        memory->slots(),
        make_eviction_policy(eviction_kind::lru, granules * std::uint64_t{granule}), options,
        memory->index());
  }

  slot_id reserve(std::uint32_t length) {
    auto slot = pool->reserve(length, victims);
    EXPECT_TRUE(slot) << slot.error().message;
    return *slot;
  }

  commit_outcome commit(const fill& page, fill_origin from = fill_origin::producer) {
    commit_outcome outcome;
    pool->commit({&page, 1}, {&outcome, 1}, from);
    return outcome;
  }

  /// Fills a page, but does not put it into the host index.
  fill unnamed(std::uint64_t number, std::uint32_t length = granule) {
    fill page{reserve(length), key_of(number), length, number};
    EXPECT_TRUE(memory->slots().fill(page.slot, page.key, page.length_bytes, page.checksum));
    return page;
  }

  commit_outcome put(std::uint64_t number, std::uint32_t length = granule) {
    return commit(unnamed(number, length));
  }

  bool has(std::uint64_t number) const { return pool->find(key_of(number)).has_value(); }

  /// Returns the page of this key and length that the host index finds; `length` 0 stands for any
  /// length.
  std::optional<host_index::page> on_host(std::uint64_t number, std::uint32_t length = 0) const {
    return memory->index().find(key_of(number), length);
  }

  /// Fills a page as a client of the host does: the page is in the host index, but the pool does
  /// not know it yet.
  fill filled(std::uint64_t number, std::uint32_t length = granule) {
    const auto page = unnamed(number, length);
    EXPECT_TRUE(memory->index().insert(page.key, page.slot));
    return page;
  }

  std::unique_ptr<heap_pool> memory;
  std::unique_ptr<page_pool> pool;
  std::vector<evicted> victims;
};

TEST_F(page_pool_on_host, the_host_finds_what_is_here_from_its_filling_to_its_end) {
  make(8);
  const auto page = filled(1);
  EXPECT_FALSE(has(1));
  ASSERT_TRUE(on_host(1));
  const auto gen = commit(page).gen;
  EXPECT_EQ(on_host(1)->contents.gen, gen);
  const auto promoted = commit(unnamed(2), fill_origin::copy);
  EXPECT_EQ(on_host(2)->slot, promoted.slot) << "nobody but the pool knows that it is here";
  pool->remove(key_of(1));
  EXPECT_FALSE(on_host(1));
  for (std::uint64_t number = 10; number < 40; ++number) {
    put(number);
    EXPECT_TRUE(on_host(number)) << number;
  }
  EXPECT_FALSE(on_host(2)) << "evicted";
}

TEST_F(page_pool_on_host, the_host_finds_the_page_that_stays_when_two_were_filled) {
  make(8);
  const auto one = filled(1), other = filled(1);
  EXPECT_EQ(commit(other).status, page_status::stored);
  EXPECT_EQ(commit(one).status, page_status::duplicate);
  EXPECT_EQ(on_host(1)->slot, other.slot);
  pool->remove(key_of(1));
  EXPECT_FALSE(on_host(1)) << "what was dropped does not come back";
}

TEST_F(page_pool_on_host, the_host_finds_no_page_that_its_filler_gave_back) {
  make(8);
  const auto page = filled(1);
  EXPECT_TRUE(pool->abandon(page.slot));
  EXPECT_FALSE(on_host(1));
}

TEST_F(page_pool_on_host, a_page_of_another_length_gives_way_to_the_newest) {
  make(16);
  const auto old = put(1);
  const auto newer = put(1, 2 * granule);
  ASSERT_EQ(newer.status, page_status::stored);
  ASSERT_TRUE(newer.replaced) << "the directory and the disk are to hear of it";
  EXPECT_EQ(newer.replaced->gen, old.gen);
  EXPECT_GT(newer.gen, old.gen);
  EXPECT_EQ(pool->find(key_of(1))->length_bytes, 2 * granule);
  EXPECT_EQ(pool->stats().pages, 1u);
  EXPECT_FALSE(on_host(1, granule));
  EXPECT_TRUE(on_host(1, 2 * granule));
  EXPECT_EQ(put(1, 2 * granule).status, page_status::duplicate);
}

TEST_F(page_pool_on_host, nothing_gives_way_to_a_page_that_comes_from_disk) {
  make(16);
  put(1, 2 * granule);
  const auto outcome = commit(unnamed(1), fill_origin::copy);
  EXPECT_EQ(outcome.status, page_status::duplicate);
  EXPECT_EQ(pool->find(key_of(1))->length_bytes, 2 * granule);
}

TEST_F(page_pool_on_host, one_put_may_bring_two_pages_of_one_key) {
  make(16);
  put(1);
  std::vector<fill> fills;
  for (const auto length : {granule, 2 * granule, 3 * granule, 3 * granule})
    fills.push_back(unnamed(1, length));
  std::vector<commit_outcome> outcomes(fills.size());
  pool->commit(fills, outcomes, fill_origin::producer);
  const std::vector expected = {page_status::duplicate, page_status::stored, page_status::stored,
                                page_status::duplicate};
  for (std::size_t i = 0; i < fills.size(); ++i)
    EXPECT_EQ(outcomes[i].status, expected[i]) << i;
  EXPECT_EQ(pool->find(key_of(1))->length_bytes, 3 * granule);
  EXPECT_EQ(pool->stats().pages, 1u);
  EXPECT_EQ(pool->stats().filling, 0u);
  for (std::uint64_t number = 10; number < 40; ++number)
    EXPECT_EQ(put(number).status, page_status::stored) << "the order holds pages that are gone";
}

} // namespace
} // namespace peercache::storage::page_pool_host_test
