#include "storage/disk/offset/offset_store.hpp"

#include "common/test_guards.hpp"
#include "storage/disk/offset/offset_scan.hpp"
#include "storage/disk/page_check.hpp"
#include "tests/storage/disk/offset/name_index.hpp"
#include "tests/storage/disk/store_harness.hpp"
#include "tests/support/thorough.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace peercache::storage::offset_store_test {
namespace {

using namespace std::chrono_literals;
using event_kind = disk_event::kind;

std::unique_ptr<disk_store> make(disk_io& io, const disk_store_options& options) {
  return make_offset_store(io, options, std::make_unique<name_index>(io));
}
const store_kind offsets{"offset", make};

store_harness open(memory_disk_io& io, std::uint64_t size_bytes = 1u << 20) {
  return {offsets, io, small_store(size_bytes)};
}

void lose_index(memory_disk_io& io) {
  for (const auto& file : io.files())
    if (file.starts_with("index/")) {
      ASSERT_TRUE(io.remove(file));
    }
}

TEST(offset_store, takes_all_of_its_room_at_the_start) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  EXPECT_EQ(io.contents("pages.data").size(), 1u << 20);
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
  ASSERT_EQ(there.write_and_settle({.number = 1}), disk_status::ok);
  EXPECT_EQ(there.store().stats().used_bytes, 2 * disk_block_bytes);
  EXPECT_EQ(io.contents("pages.data").size(), 1u << 20);
}

TEST(offset_store, is_as_large_as_the_options_say_after_a_restart) {
  memory_disk_io io;
  std::map<std::uint32_t, std::vector<test_page>> tried;
  {
    auto there = open(io, 1u << 20);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t i = 0; i < 128; ++i)
      ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
    ASSERT_EQ(there.write_and_settle({.number = 999}), disk_status::no_room);
    tried = there.tried();
  }
  {
    auto larger = open(io, 2u << 20);
    larger.know(tried);
    ASSERT_TRUE(larger.recover());
    EXPECT_EQ(larger.store().stats().pages, 128u);
    ASSERT_EQ(larger.write_and_settle({.number = 999}), disk_status::ok);
  }
  auto smaller = open(io, 512u << 10);
  smaller.know(tried);
  const auto report = smaller.recover();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->pages, 64u);
  // The records of pages beyond the end of the smaller file count as torn.
  EXPECT_EQ(report->torn, 65u);
  for (std::uint32_t i = 0; i < 128; ++i)
    smaller.read_and_settle(i);
  EXPECT_EQ(smaller.events(event_kind::read, disk_status::ok), 64u);
  EXPECT_EQ(smaller.wrong_pages(), 0u);
}

TEST(offset_store, without_its_index_it_finds_every_page_in_the_file) {
  memory_disk_io io;
  std::map<std::uint32_t, test_page> durable;
  std::map<std::uint32_t, std::vector<test_page>> tried;
  {
    auto there = open(io, 4u << 20);
    ASSERT_TRUE(there.recover());
    // Rewrites every page again and again, so that headers of former pages lie everywhere in the
    // file.
    for (std::uint32_t i = 0; i < 900; ++i) {
      there.write({.number = i % 60, .version = i / 60, .length_bytes = 1 + i * 7919 % 60'000});
      if (i % 5 == 0)
        there.step();
    }
    there.settle();
    there.close();
    durable = there.durable();
    tried = there.tried();
    ASSERT_EQ(durable.size(), 60u);
  }
  for (int start = 0; start < 2; ++start) {
    if (start == 0)
      lose_index(io);
    auto again = open(io, 4u << 20);
    again.know(tried);
    const auto report = again.recover({.threads = 3});
    ASSERT_TRUE(report);
    for (const auto& [number, page] : durable) {
      const auto* found = again.store().find(key_of(number));
      ASSERT_NE(found, nullptr) << number;
      ASSERT_EQ(found->gen, generation_of(page)) << number;
      ASSERT_EQ(again.read_and_settle(number), disk_status::ok) << number;
    }
    EXPECT_EQ(again.wrong_pages(), 0u);
  }
}

TEST(offset_store, without_its_index_flipped_bits_give_no_wrong_byte) {
  std::mt19937_64 random(1);
  memory_disk_io io;
  std::map<std::uint32_t, std::vector<test_page>> tried;
  {
    auto there = open(io, 512u << 10);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t i = 0; i < 100; ++i)
      there.write_and_settle({.number = i % 25, .version = i, .length_bytes = 1 + i * 577 % 9000});
    tried = there.tried();
    there.close();
  }
  lose_index(io);
  std::uint64_t ok = 0;
  const int rounds = thorough(500, 100);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    auto disk = io.after_power_cut(1, survivors::all);
    // Half of the flips are in the first 128 bytes of a block, which may be a header.
    for (int flip = 0; flip < 8; ++flip) {
      const auto within = flip % 2 == 0 ? random() % disk_block_bytes : random() % 128;
      disk->flip_bit("pages.data", random() % 128 * disk_block_bytes + within,
                     static_cast<unsigned>(random() % 8));
    }
    auto again = open(*disk, 512u << 10);
    again.know(tried);
    ASSERT_TRUE(again.recover());
    for (std::uint32_t i = 0; i < 25; ++i)
      again.read(i);
    again.settle();
    ASSERT_EQ(again.wrong_pages(), 0u);
    ok += again.events(event_kind::read, disk_status::ok);
  }
  EXPECT_GT(ok, static_cast<std::uint64_t>(rounds) * 15);
}

record_header page_at(std::uint32_t number, std::uint64_t sequence, std::uint64_t block,
                      std::uint32_t length_bytes) {
  auto header = header_of({key_of(number), generation{2}, 5, 3, length_bytes}, {11, 22}, sequence,
                          (block + 1) * disk_block_bytes);
  seal(header);
  return header;
}

std::vector<page_key> recovered(memory_disk_io& io, std::vector<record_header> indexed,
                                recovery_report& report) {
  name_index index(io);
  EXPECT_TRUE(index.clear());
  EXPECT_TRUE(index.commit_now({{}, std::move(indexed), 100}));
  EXPECT_TRUE(io.create("pages.data", 1u << 20));
  auto there = open(io);
  const auto told = there.recover();
  EXPECT_TRUE(told);
  report = *told;
  std::vector<page_key> keys;
  there.store().walk(0, 100, [&](const disk_page& page) { keys.push_back(page.key); });
  return keys;
}

TEST(offset_store, of_records_that_overlap_the_newest_is_kept) {
  memory_disk_io io;
  recovery_report report;
  const auto keys =
      recovered(io,
                {page_at(1, 1, 0, 8 * 4096), page_at(2, 5, 4, 4096), page_at(3, 3, 20, 4096),
                 page_at(4, 2, 21, 4096), page_at(5, 4, 30, 4096)},
                report);
  EXPECT_EQ(keys, (std::vector{key_of(3), key_of(5), key_of(2)}));
  EXPECT_EQ(report.replaced, 2u);
  auto again = open(io);
  // The start above has removed the overlapped records from the index, so this start finds none.
  EXPECT_EQ(again.recover()->replaced, 0u);
}

TEST(offset_store, a_first_sync_that_ends_after_the_start_gave_up_does_no_harm) {
  memory_disk_io io;
  io.set_delay(disk_operation::sync, 1h);
  auto options = small_store(1u << 20);
  options.first_sync_at_most = 0s;
  store_harness there(offsets, io, options);
  const auto report = there.recover();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, errc::timed_out);
  io.advance(2h);
  there.step();
  there.close();
}

/// Sequences of records that were written and never committed are not given out again.
TEST(offset_store, each_start_begins_at_a_larger_sequence) {
  memory_disk_io io;
  std::uint64_t before = 0;
  for (int start = 0; start < 3; ++start) {
    ASSERT_TRUE(open(io).recover());
    const auto next =
        name_index(io).load(1, [](std::uint32_t, const page_key&, std::span<const std::byte>) {});
    ASSERT_TRUE(next && *next);
    EXPECT_GT(**next, before) << "start " << start;
    before = **next;
  }
}

TEST(offset_store, records_outside_of_the_file_are_dropped) {
  memory_disk_io io;
  recovery_report report;
  auto before = page_at(4, 4, 0, 4096);
  // Invalid: a page at the start of the file has no room for the header before it.
  before.offset_bytes = 0;
  seal(before);
  const auto keys = recovered(io,
                              {page_at(1, 1, 254, 4096), page_at(2, 2, 254, 4097),
                               page_at(3, 3, UINT64_MAX / 4096 - 1, 4096), before},
                              report);
  EXPECT_EQ(keys, std::vector{key_of(1)});
  EXPECT_EQ(report.torn, 3u);
}

/// A false index, which returns two records with their headers exchanged.
class swapped_index final : public offset_index {
public:
  explicit swapped_index(disk_io& io) : index_(io) {}
  std::uint64_t room_bytes(std::uint64_t) const override { return 0; }
  result<std::optional<std::uint64_t>> load(std::uint32_t threads, const visit& each) override {
    return index_.load(
        threads, [&](std::uint32_t thread, const page_key& key, std::span<const std::byte> raw) {
          each(thread, key == key_of(1) ? key_of(2) : key == key_of(2) ? key_of(1) : key, raw);
        });
  }
  result<void> clear() override { return index_.clear(); }
  result<void> commit_now(const offset_index_batch& batch) override {
    return index_.commit_now(batch);
  }
  void commit(offset_index_batch batch, std::function<void()> wake) override {
    index_.commit(std::move(batch), std::move(wake));
  }
  std::optional<result<void>> committed() override { return index_.committed(); }

private:
  name_index index_;
};

std::unique_ptr<disk_store> make_swapped(disk_io& io, const disk_store_options& options) {
  return make_offset_store(io, options, std::make_unique<swapped_index>(io));
}

std::uint64_t wrong_pages_of_a_swapped_index() {
  memory_disk_io io;
  auto there = open(io);
  EXPECT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  there.close();
  store_harness again({"swapped", make_swapped}, io, small_store(1u << 20));
  again.know(there.tried());
  EXPECT_TRUE(again.recover());
  for (std::uint32_t i = 0; i < 4; ++i)
    again.read_and_settle(i);
  EXPECT_GE(again.events(event_kind::read, disk_status::ok), 2u);
  return again.wrong_pages();
}

TEST(offset_store, a_record_under_anothers_key_is_a_miss) {
  EXPECT_EQ(wrong_pages_of_a_swapped_index(), 0u);
}

TEST(offset_store, with_the_key_not_compared_a_record_under_anothers_key_gives_a_wrong_page) {
  const guard_switched_off off(guard::key);
  EXPECT_EQ(wrong_pages_of_a_swapped_index(), 2u);
}

TEST(offset_store, an_eviction_makes_room_for_what_no_hole_was_large_enough_for) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 128; ++i)
    ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  for (std::uint32_t i = 64; i < 128; i += 2)
    ASSERT_TRUE(there.store().erase(key_of(i)));
  for (int i = 0; i < 10; ++i)
    there.step();
  ASSERT_EQ(there.store().stats().used_bytes, 192 * disk_block_bytes);
  const test_page large{.number = 500, .length_bytes = 40'000};
  ASSERT_EQ(there.write_and_settle(large), disk_status::no_room);
  // The free holes are too small for the page, so they count as used: the tier evicts by the number
  // of used bytes.
  EXPECT_EQ(there.store().stats().used_bytes, 256 * disk_block_bytes);
  const auto eviction = there.store().begin_eviction(1);
  EXPECT_GE(eviction.pages.size(), 5u);
  there.store().finish_eviction(eviction.ticket);
  for (int i = 0; i < 10; ++i)
    there.step();
  EXPECT_EQ(there.write_and_settle(large), disk_status::ok);
  EXPECT_LT(there.store().stats().used_bytes, 220 * disk_block_bytes);
}

TEST(offset_store, an_extent_is_not_used_again_before_the_index_has_forgotten_it) {
  memory_disk_io io;
  auto there = open(io, 64u << 10); // The store has room for eight pages of one block.
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 8; ++i)
    ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  // Every commit of the index fails from here on.
  io.fail_share(disk_operation::metadata, 1.0, EIO);
  ASSERT_TRUE(there.store().erase(key_of(0)));
  for (int i = 0; i < 10; ++i) {
    there.step();
    there.pass(60ms);
  }
  EXPECT_EQ(there.write_and_settle({.number = 100}), disk_status::no_room);
  io.heal();
  for (int i = 0; i < 10; ++i) {
    there.step();
    there.pass(60ms);
  }
  EXPECT_EQ(there.write_and_settle({.number = 100}), disk_status::ok);
}

TEST(offset_store, pages_whose_commit_failed_are_not_there_and_come_back_when_written_again) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 1}), disk_status::ok);
  io.fail_share(disk_operation::metadata, 1.0, EIO);
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 2}), disk_status::io_failed);
  EXPECT_EQ(there.read_and_settle(1), disk_status::not_found);
  io.heal();
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 3}), disk_status::ok);
  auto left = io.after_power_cut(1, survivors::none);
  auto again = open(*left);
  again.know(there.tried());
  ASSERT_TRUE(again.recover());
  EXPECT_EQ(again.store().find(key_of(1))->gen, generation_of({.version = 3}));
  EXPECT_EQ(again.read_and_settle(1), disk_status::ok);
  EXPECT_EQ(again.wrong_pages(), 0u);
}

} // namespace
} // namespace peercache::storage::offset_store_test
