#include "rdma/verbs/entry_judge.hpp"

#include "common/checksum.hpp"
#include "common/slot_entry.hpp"
#include "common/test_guards.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace peercache::rdma::entry_judge_test {
namespace {

/// Tests with a page that was READ, and its slot's entry that was READ afterwards. Page and entry
/// agree unless a test changes one.
class entry_judge_test : public testing::Test {
protected:
  entry_judge_test() {
    page.key.bytes[3] = 7;
    page.gen = {8};
    page.length_bytes = 100;
    page.part_count = 1;
    page.checksum = checksum_of(memory);
    entry.generation = 8;
    entry.key = page.key;
    entry.length_bytes = 100;
  }

  page_status judged() const {
    std::array<std::byte, sizeof(slot_entry)> raw;
    std::memcpy(raw.data(), static_cast<const void*>(&entry), sizeof entry);
    return judge_page(page, {&part, 1}, raw.data());
  }

  std::vector<std::byte> memory = std::vector<std::byte>(100, std::byte{5});
  page_part part{memory.data(), 100};
  page_read page;
  slot_entry entry{};
};

TEST_F(entry_judge_test, what_equals_the_record_is_a_hit) {
  EXPECT_EQ(judged(), page_status::hit);
}

TEST_F(entry_judge_test, another_generation_is_stale) {
  entry.generation = 9;
  EXPECT_EQ(judged(), page_status::stale);
  const guard_switched_off off(guard::generation);
  EXPECT_EQ(judged(), page_status::hit);
}

/// An odd generation means that the slot is being filled. Even if a faulty directory's record names
/// it, the page must be stale.
TEST_F(entry_judge_test, an_odd_generation_is_stale_even_if_the_record_names_it) {
  entry.generation = page.gen.value = 9;
  EXPECT_EQ(judged(), page_status::stale);
  entry.generation = page.gen.value = 0;
  EXPECT_EQ(judged(), page_status::stale);
}

TEST_F(entry_judge_test, another_key_is_wrong) {
  entry.key.bytes[3] = 8;
  EXPECT_EQ(judged(), page_status::wrong_key);
  const guard_switched_off off(guard::key);
  EXPECT_EQ(judged(), page_status::hit);
}

TEST_F(entry_judge_test, another_length_is_of_a_bad_size) {
  entry.length_bytes = 99;
  EXPECT_EQ(judged(), page_status::bad_size);
}

TEST_F(entry_judge_test, other_bytes_are_corrupt_where_they_are_verified) {
  memory[50] = std::byte{6};
  EXPECT_EQ(judged(), page_status::corrupt);
  page.verify = false;
  EXPECT_EQ(judged(), page_status::hit);
  page.verify = true;
  const guard_switched_off off(guard::checksum);
  EXPECT_EQ(judged(), page_status::hit);
}

TEST_F(entry_judge_test, a_lease_says_nothing_of_lengths) {
  entry.length_bytes = 0;
  EXPECT_EQ(judged(), page_status::bad_size);
  page.source = memory_rows::one_piece(4096, 100);
  EXPECT_EQ(judged(), page_status::hit);
}

} // namespace
} // namespace peercache::rdma::entry_judge_test
