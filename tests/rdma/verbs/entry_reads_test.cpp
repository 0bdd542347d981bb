#include "rdma/verbs/entry_reads.hpp"

#include "common/limits.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>

namespace peercache::rdma::entry_reads_test {
namespace {

constexpr std::uint64_t table_address = 1u << 30;
constexpr std::uint32_t granules = 40'000;
constexpr std::uint64_t table_bytes = granules * sizeof(slot_entry);
constexpr std::uint32_t message_bytes = 1u << 30;

/// Tests with a batch of pages in slots of a table. The test carries out the READs of the slots'
/// entries itself.
class entry_reads_test : public testing::Test {
protected:
  entry_reads_test() : table(table_bytes) {
    verbs_answer answer;
    answer.table_address = table_address;
    answer.pages_address = table_address + table_bytes;
    answer.granules = granules;
    answer.chunks = 2;
    answer.region_bytes = table_bytes + std::uint64_t{granules} * limits::granule_bytes;
    region = remote_region(answer);
  }

  void register_table(std::uint64_t first_bytes = table_bytes, bool the_rest = true) {
    add_chunk(0, table_address, first_bytes);
    if (first_bytes != table_bytes && the_rest)
      add_chunk(1, table_address + first_bytes, table_bytes - first_bytes);
  }

  void add_chunk(std::uint32_t index, std::uint64_t address, std::uint64_t bytes) {
    region_chunk made;
    made.index = index;
    made.address = address;
    made.bytes = bytes;
    made.rkey = 10 + index;
    ASSERT_TRUE(region.add(made));
  }

  /// Adds a page whose slot's entry agrees with its record.
  void add(std::uint32_t slot) {
    page_read page;
    page.slot = {slot};
    page.gen = {2 * std::uint64_t{slot} + 2};
    page.key.bytes[0] = static_cast<std::uint8_t>(slot);
    page.length_bytes = 100;
    page.verify = false;
    batch.pages.push_back(page);
    job.order.push_back(static_cast<std::uint32_t>(job.order.size()));
    slot_entry entry{};
    entry.generation = page.gen.value;
    entry.key = page.key;
    entry.length_bytes = 100;
    std::memcpy(&table[slot * sizeof entry], static_cast<const void*>(&entry), sizeof entry);
  }

  void begin() {
    job.batch = &batch;
    reads.begin(job, {0, static_cast<std::uint32_t>(batch.pages.size()), 0}, region, message_bytes,
                landing.data());
  }

  void carry_out(const entry_read& read) {
    ASSERT_LE(read.to + read.bytes, landing.data() + landing.size());
    std::memcpy(read.to, &table[read.remote_address - table_address], read.bytes);
  }

  /// Carries out all READs of a sub-request in order. Returns their number.
  std::uint64_t run() {
    begin();
    entry_read read;
    std::uint64_t request = 0;
    while (reads.next(read, request + 1)) {
      ++request;
      carry_out(read);
      reads.judge(request);
    }
    reads.judge(request);
    return request;
  }

  bool all(page_status status) const {
    return std::all_of(batch.pages.begin(), batch.pages.end(),
                       [&](const auto& page) { return page.status == status; });
  }

  std::vector<std::byte> table;
  std::vector<std::byte> landing = std::vector<std::byte>(bounce_memory::block_bytes);
  remote_region region;
  read_batch batch;
  batch_job job;
  entry_reads reads;
};

TEST_F(entry_reads_test, neighbours_share_a_read) {
  register_table();
  for (std::uint32_t i = 0; i < 16; ++i)
    add(100 + 16 * i);
  EXPECT_EQ(run(), 1u);
  EXPECT_TRUE(all(page_status::hit));
}

TEST_F(entry_reads_test, a_read_is_not_longer_than_its_limit) {
  register_table();
  for (std::uint32_t i = 0; i < 1000; ++i)
    add(i);
  EXPECT_EQ(run(), (1000 * sizeof(slot_entry) + entry_reads::read_bytes_max - 1) /
                       entry_reads::read_bytes_max);
  EXPECT_TRUE(all(page_status::hit));
}

TEST_F(entry_reads_test, entries_far_apart_or_backwards_have_a_read_each) {
  register_table();
  for (const std::uint32_t slot : {500u, 517u, 516u, 400u})
    add(slot);
  EXPECT_EQ(run(), 4u);
  EXPECT_TRUE(all(page_status::hit));
}

TEST_F(entry_reads_test, the_same_slot_twice_is_one_read) {
  register_table();
  add(500);
  add(500);
  EXPECT_EQ(run(), 1u);
  EXPECT_TRUE(all(page_status::hit));
}

TEST_F(entry_reads_test, a_read_ends_where_its_chunk_ends) {
  register_table(10 * sizeof(slot_entry));
  for (std::uint32_t slot = 5; slot < 15; ++slot)
    add(slot);
  EXPECT_EQ(run(), 2u);
  EXPECT_TRUE(all(page_status::hit));
}

TEST_F(entry_reads_test, an_entry_that_is_not_registered_whole_is_unreachable) {
  register_table(10 * sizeof(slot_entry) + 8, false);
  add(10);
  add(9);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(batch.pages[0].status, page_status::unreachable);
  EXPECT_EQ(batch.pages[1].status, page_status::hit);
  EXPECT_TRUE(reads.all_judged());
}

TEST_F(entry_reads_test, pages_that_are_decided_are_left_alone) {
  register_table();
  for (std::uint32_t slot = 0; slot < 3; ++slot)
    add(slot);
  batch.pages[0].status = batch.pages[2].status = page_status::stale;
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(batch.pages[0].status, page_status::stale);
  EXPECT_EQ(batch.pages[1].status, page_status::hit);
  EXPECT_EQ(batch.pages[2].status, page_status::stale);
}

TEST_F(entry_reads_test, any_number_of_decided_pages_is_passed_at_once) {
  register_table();
  for (std::uint32_t i = 0; i < 5000; ++i) {
    add(i);
    batch.pages.back().status = page_status::stale;
  }
  add(5000);
  EXPECT_EQ(run(), 1u);
  EXPECT_TRUE(reads.all_judged());
  EXPECT_EQ(batch.pages.back().status, page_status::hit);
}

/// READs random slots' entries, which arrive at random times into memory that is used again: each
/// page must be judged by its own entry.
TEST_F(entry_reads_test, a_landing_that_is_used_again_keeps_what_is_not_judged) {
  register_table();
  std::mt19937 random(7);
  std::uint32_t slot = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool jump = random() % 50 == 0;
    slot = (jump ? random() : slot + random() % 20) % granules;
    add(slot);
    if (random() % 10 == 0)
      // Makes the record's generation differ from the entry's, so that the page is stale.
      batch.pages.back().gen.value += 2;
  }
  begin();
  std::deque<entry_read> underway;
  std::uint64_t given = 0;
  std::uint64_t ended = 0;
  while (!reads.all_judged()) {
    entry_read read;
    while (random() % 40 != 0 && reads.next(read, given + 1)) {
      ++given;
      underway.push_back(read);
    }
    while (!underway.empty() && random() % 40 != 0) {
      carry_out(underway.front());
      underway.pop_front();
      ++ended;
    }
    reads.judge(ended);
  }
  for (const auto& page : batch.pages) {
    std::uint64_t generation = 0;
    std::memcpy(&generation, &table[page.slot.value * sizeof(slot_entry)], sizeof generation);
    ASSERT_EQ(page.status, generation == page.gen.value ? page_status::hit : page_status::stale);
  }
}

} // namespace
} // namespace peercache::rdma::entry_reads_test
