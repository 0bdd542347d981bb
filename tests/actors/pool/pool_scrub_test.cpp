// Tests of a pool that zeroes the bytes of all pages before their slots are used again.

#include "tests/actors/cluster_fixture.hpp"

#include <algorithm>

namespace peercache::actors::pool_scrub_test {
namespace {

constexpr std::uint32_t page_bytes = 1u << 20;
constexpr std::uint32_t pages = 16; ///< As many as the pool has room for.

class pool_scrub : public cluster_fixture {
protected:
  pool_scrub() : cluster_fixture(pages * page_bytes / limits::granule_bytes) {
    scrub_evicted = true;
    restart_pool();
    tell_everyone(both());
  }

  std::span<std::byte> bytes_of(slot_id slot) { return memory.slots().bytes(slot, page_bytes); }
  /// Overwrites the whole slot, as the filler of a page does.
  slot_id written(slot_id slot) {
    std::ranges::fill(bytes_of(slot), std::byte{1});
    return slot;
  }
  bool is_zero(slot_id slot) {
    return std::ranges::all_of(bytes_of(slot), [](auto byte) { return byte == std::byte{0}; });
  }
  void fill_up() {
    for (std::uint32_t i = 0; i < pages; ++i)
      ASSERT_EQ(commit(key_named(std::to_string(i)), written(reserve(page_bytes)),
                       commit_mode::skip, page_bytes),
                page_status::stored);
  }
  /// The packed lengths of this many pages.
  static std::string lengths_of(std::uint32_t count) {
    std::string lengths;
    for (std::uint32_t i = 0; i < count; ++i)
      append_record(lengths, page_bytes);
    return lengths;
  }
  std::uint32_t zeroed_pages() {
    std::uint32_t zeroed = 0;
    for (std::uint32_t i = 0; i < pages; ++i)
      zeroed += is_zero({i * page_bytes / limits::granule_bytes}) ? 1 : 0;
    return zeroed;
  }
  auto ask_for(std::uint32_t count) {
    return self->request(pool, caf::infinite, reserve_atom_v, lengths_of(count), from_here{});
  }
  /// Expects that an answer has this many slots, and that all bytes in them are zero.
  void expect_zeroed(const std::string& slots, std::uint32_t count) {
    ASSERT_EQ(record_count<slot_id>(slots), count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto slot = record_at<slot_id>(slots, i);
      ASSERT_NE(slot, no_slot) << i;
      EXPECT_TRUE(is_zero(slot)) << i;
    }
  }
};

TEST_F(pool_scrub, a_large_reserve_in_a_full_pool_lets_other_messages_be_handled) {
  fill_up();
  const auto before = zeroed_pages();
  auto large = ask_for(12);
  auto small = ask_for(1);
  scheduler().run_once();
  EXPECT_GE(zeroed_pages() - before, 1u);
  EXPECT_LE(zeroed_pages() - before, 5u) << "in one message";
  scheduler().run_once(); // The small reserve, which waits behind the large one.
  EXPECT_LE(zeroed_pages() - before, 5u) << "the rest is behind all messages that have come";
  settle();
  const auto failed = [](const caf::error&) { ADD_FAILURE() << "no slots"; };
  large.receive([this](const std::string& slots) { expect_zeroed(slots, 12); }, failed);
  small.receive([this](const std::string& slots) { expect_zeroed(slots, 1); }, failed);
}

TEST_F(pool_scrub, a_commit_brings_all_slots_of_the_next_one) {
  const auto first = written(reserve(page_bytes));
  fill_up();
  auto pending = self->request(
      pool, caf::infinite, commit_atom_v, fill_slot(key_named("last"), first, page_bytes),
      static_cast<std::uint8_t>(commit_mode::skip), lengths_of(12), from_here{});
  settle();
  pending.receive(
      [this](const std::string& statuses, const std::string& slots) {
        EXPECT_EQ(static_cast<page_status>(statuses.at(0)), page_status::stored);
        expect_zeroed(slots, 12);
      },
      [](const caf::error&) { ADD_FAILURE() << "the commit was refused"; });
}

TEST_F(pool_scrub, what_a_fill_left_is_zeroed_as_soon_as_it_is_given_back) {
  const auto slot = written(reserve(page_bytes));
  std::string slots;
  append_record(slots, slot);
  caf::anon_send(pool, abandon_atom_v, slots, from_here{});
  settle();
  EXPECT_TRUE(is_zero(slot));
  EXPECT_EQ(count_of(pool, metric::pool_bytes_used), 0u);
}

TEST_F(pool_scrub, what_a_duplicate_left_is_zeroed_as_soon_as_it_is_refused) {
  const auto key = key_named("a");
  ASSERT_EQ(commit(key, written(reserve(page_bytes)), commit_mode::skip, page_bytes),
            page_status::stored);
  const auto again = written(reserve(page_bytes));
  EXPECT_EQ(commit(key, again, commit_mode::skip, page_bytes), page_status::duplicate);
  EXPECT_TRUE(is_zero(again));
  EXPECT_EQ(count_of(pool, metric::pool_bytes_used), page_bytes);
}

TEST_F(pool_scrub, what_gave_way_to_a_page_of_another_length_is_zeroed_at_once) {
  const auto key = key_named("a");
  const auto slot = written(reserve(page_bytes));
  ASSERT_EQ(commit(key, slot, commit_mode::skip, page_bytes), page_status::stored);
  ASSERT_EQ(commit(key, reserve(4096), commit_mode::skip, 4096), page_status::stored);
  EXPECT_TRUE(is_zero(slot));
  EXPECT_EQ(count_of(pool, metric::pool_bytes_used), 4096u);
}

} // namespace
} // namespace peercache::actors::pool_scrub_test
