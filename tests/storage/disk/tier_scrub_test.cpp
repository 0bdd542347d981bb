// Tests of a disk tier's scrub, which reads all pages in the background, or at once when an
// operator asks for it.

#include "tests/storage/disk/tier_rig.hpp"

namespace peercache::storage::tier_test {
namespace {

using tier_scrub = disk_tier_test;

TEST_F(tier_scrub, the_scrub_finds_what_nobody_reads_at_its_rate) {
  options.scrub_bytes_per_s = page_bytes;
  make();
  store_pages(1, 3);
  store->rotten[key_of(3)] = true;
  std::size_t gone = 0;
  for (int i = 0; i < 10; ++i, now += 500ms)
    for (const auto& each : poll().gone)
      gone += each.pages.size();
  EXPECT_EQ(gone, 1u);
  EXPECT_FALSE(store->index.find(key_of(3)));
  EXPECT_GE(tier->stats().scrubbed_bytes, 2u * page_bytes);
  EXPECT_LE(tier->stats().scrubbed_bytes, 5u * page_bytes);
}

TEST_F(tier_scrub, verify_reads_all_pages_without_waiting) {
  make();
  store_pages(1, 10);
  tier->verify_now();
  for (int i = 0; i < 20; ++i)
    poll();
  EXPECT_EQ(tier->stats().scrubbed_bytes, 10u * page_bytes);
}

TEST_F(tier_scrub, verify_passes_over_no_page_while_the_store_is_busy) {
  make();
  store_pages(1, 10);
  tier->verify_now();
  for (int i = 0; i < 60; ++i) {
    store->busy = i % 3 != 0;
    poll();
  }
  EXPECT_FALSE(tier->verifying());
  EXPECT_EQ(tier->stats().scrubbed_bytes, 10u * page_bytes);
}

TEST_F(tier_scrub, a_busy_store_is_not_asked_without_a_pause) {
  options.scrub_bytes_per_s = 1ull << 30;
  make();
  store_pages(1, 10);
  now += 1h;
  store->busy = true;
  poll();
  EXPECT_GT(tier->next_due(), now);
  store->busy = false;
  const auto before = tier->stats().scrubbed_bytes;
  now = tier->next_due();
  poll();
  poll();
  EXPECT_GT(tier->stats().scrubbed_bytes, before);
}

TEST_F(tier_scrub, verify_begins_with_the_first_page_wherever_the_scrub_is) {
  options.scrub_bytes_per_s = page_bytes;
  make();
  store_pages(1, 10);
  for (int i = 0; i < 5; ++i, now += 1s)
    poll();
  const auto before = tier->stats().scrubbed_bytes;
  ASSERT_GT(before, 0u);
  tier->verify_now();
  for (int i = 0; i < 20; ++i)
    poll();
  EXPECT_GE(tier->stats().scrubbed_bytes - before, 10u * page_bytes);
}

TEST_F(tier_scrub, verify_is_no_use_of_the_pages_and_reads_all_where_uses_count) {
  make();
  store->lru = true;
  store_pages(1, 10);
  tier->verify_now();
  for (int i = 0; i < 20; ++i)
    poll();
  EXPECT_EQ(tier->stats().scrubbed_bytes, 10u * page_bytes);
  EXPECT_EQ(store->index.oldest().page.key, key_of(1));
}

} // namespace
} // namespace peercache::storage::tier_test
