#include "common/test_guards.hpp"
#include "tests/storage/disk/store_harness.hpp"
#include "tests/support/thorough.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string_view>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;

class disk_store_damage : public disk_stores {};

INSTANTIATE_TEST_SUITE_P(kinds, disk_store_damage, testing::ValuesIn(all_store_kinds()), name_of);

disk_store_options tiny_store(std::uint64_t node = 22) {
  auto options = small_store(512u << 10);
  options.owner.node = node;
  options.bucket_bytes = 80u << 10;
  options.bucket_keys = 8;
  return options;
}

constexpr std::uint32_t pages = 24;

/// What a store has left: its disk, after a close or after a power cut that lost no write; and the
/// pages that were written.
struct lived {
  std::unique_ptr<memory_disk_io> disk;
  std::map<std::uint32_t, std::vector<test_page>> tried;
};

lived live(const store_kind& kind, bool closed, std::uint64_t node = 22, std::uint32_t from = 0) {
  memory_disk_io io;
  store_harness there(kind, io, tiny_store(node));
  EXPECT_TRUE(there.recover());
  for (std::uint32_t i = from; i < from + pages; ++i)
    there.write({.number = i, .length_bytes = 1 + i * 2741 % 9000});
  there.settle();
  EXPECT_EQ(there.durable().size(), pages);
  if (closed)
    there.close();
  return {io.after_power_cut(1, survivors::all), there.tried()};
}

struct place {
  std::string file;
  std::uint64_t offset_bytes = 0;
};

/// Returns the places of all blocks with data in all files; with `metadata_only`, only of blocks
/// that hold no part of a page.
std::vector<place> blocks_of(const memory_disk_io& disk, bool metadata_only) {
  // All magic numbers of header blocks and trailers begin with these letters.
  constexpr std::string_view ours = "PC";
  std::vector<place> found;
  for (const auto& file : disk.files()) {
    const auto bytes = disk.contents(file);
    for (std::size_t at = 0; at < bytes.size(); at += disk_block_bytes) {
      const std::string_view block(reinterpret_cast<const char*>(bytes.data()) + at,
                                   std::min<std::size_t>(disk_block_bytes, bytes.size() - at));
      if (block.find_first_not_of('\0') == std::string_view::npos)
        continue;
      const bool metadata = block.substr(0, 2) == ours ||
                            (block.size() == disk_block_bytes && block.substr(4032, 2) == ours);
      if (metadata || !metadata_only)
        found.push_back({file, at});
    }
  }
  return found;
}

struct seen {
  std::uint64_t ok = 0;
  std::uint64_t lost = 0;
  std::uint64_t wrong = 0;
  std::uint64_t counted = 0; ///< All losses that the store has counted: the sum over its counters.

  bool all_told() const noexcept { return lost == 0 || counted != 0; }
};

/// Opens a store on a damaged disk, and reads every page that was written before.
seen look(const store_kind& kind, memory_disk_io& disk, const lived& before) {
  store_harness again(kind, disk, tiny_store());
  again.know(before.tried);
  const auto report = again.recover({.threads = 1, .waiting_threads = 1});
  EXPECT_TRUE(report);
  for (std::uint32_t i = 0; i < pages; ++i)
    again.read(i);
  again.settle();
  const auto ok = again.events(disk_event::kind::read, disk_status::ok);
  seen now{ok, pages - ok, again.wrong_pages(), again.store().stats().corrupt};
  if (report)
    now.counted += report->torn + report->foreign + report->replaced + report->corrupt;
  return now;
}

void flip_somewhere(memory_disk_io& disk, const std::vector<place>& blocks,
                    std::mt19937_64& random) {
  const auto& block = blocks[random() % blocks.size()];
  disk.flip_bit(block.file, block.offset_bytes + random() % disk_block_bytes,
                static_cast<unsigned>(random() % 8));
}

/// Flips a bit in the used part of a header block or trailer: near the beginning of the block, or
/// in its last 64 bytes.
void flip_metadata(memory_disk_io& disk, const std::vector<place>& blocks,
                   std::mt19937_64& random) {
  const auto& block = blocks[random() % blocks.size()];
  const auto at = random() % 4 == 0 ? disk_block_bytes - 1 - random() % 64 : random() % 1024;
  disk.flip_bit(block.file, block.offset_bytes + at, static_cast<unsigned>(random() % 8));
}

TEST_P(disk_store_damage, flipped_bits_give_no_wrong_byte) {
  constexpr int flips_each = 8;
  const int rounds = thorough(100'000, 20'000) / flips_each;
  seen all;
  std::uint64_t damaged_rounds = 0;
  std::mt19937_64 random(1);
  for (const bool closed : {true, false}) {
    const auto before = live(GetParam(), closed);
    const auto everywhere = blocks_of(*before.disk, false);
    const auto metadata = blocks_of(*before.disk, true);
    ASSERT_FALSE(metadata.empty());
    for (int round = 0; round < rounds / 2; ++round) {
      SCOPED_TRACE("closed " + std::to_string(closed) + " round " + std::to_string(round));
      auto disk = before.disk->after_power_cut(1, survivors::all);
      for (int flip = 0; flip < flips_each; ++flip) {
        if (flip % 2 == 0)
          flip_somewhere(*disk, everywhere, random);
        else
          flip_metadata(*disk, metadata, random);
      }
      const auto now = look(GetParam(), *disk, before);
      ASSERT_EQ(now.wrong, 0u);
      ASSERT_TRUE(now.all_told()) << now.lost << " pages are gone, and nothing says so";
      all.ok += now.ok;
      all.lost += now.lost;
      damaged_rounds += now.lost != 0 ? 1 : 0;
    }
  }
  // The test is worth something only if flips damaged pages in many rounds.
  EXPECT_GT(damaged_rounds, static_cast<std::uint64_t>(rounds / 2));
  EXPECT_GT(all.ok, static_cast<std::uint64_t>(rounds) * pages / 3);
}

TEST_P(disk_store_damage, one_flipped_bit_costs_few_pages) {
  std::mt19937_64 random(2);
  const auto before = live(GetParam(), true);
  const auto everywhere = blocks_of(*before.disk, false);
  for (int round = 0; round < 1000; ++round) {
    auto disk = before.disk->after_power_cut(1, survivors::all);
    flip_somewhere(*disk, everywhere, random);
    const auto now = look(GetParam(), *disk, before);
    ASSERT_EQ(now.wrong, 0u);
    ASSERT_LE(now.lost, 1u);
    ASSERT_TRUE(now.all_told());
  }
}

TEST_P(disk_store_damage, with_the_checksum_switched_off_flipped_bits_give_wrong_bytes) {
  const guard_switched_off off(guard::checksum);
  std::mt19937_64 random(3);
  std::uint64_t wrong = 0;
  for (const bool closed : {true, false}) {
    const auto before = live(GetParam(), closed);
    const auto everywhere = blocks_of(*before.disk, false);
    for (int round = 0; round < 20; ++round) {
      auto disk = before.disk->after_power_cut(1, survivors::all);
      for (int flip = 0; flip < 8; ++flip)
        flip_somewhere(*disk, everywhere, random);
      wrong += look(GetParam(), *disk, before).wrong;
    }
  }
  EXPECT_GT(wrong, 0u);
}

/// A bucket that was cut right after a record looks as if it was never longer, so the store cannot
/// report every loss.
TEST_P(disk_store_damage, files_that_were_cut_short_give_no_wrong_byte) {
  std::mt19937_64 random(4);
  std::uint64_t lost = 0;
  for (const bool closed : {true, false}) {
    const auto before = live(GetParam(), closed);
    const auto files = before.disk->files();
    for (int round = 0; round < 1000; ++round) {
      auto disk = before.disk->after_power_cut(1, survivors::all);
      const auto& name = files[random() % files.size()];
      const auto bytes = disk->contents(name).size();
      auto file = disk->open(name);
      ASSERT_TRUE(file);
      auto left = bytes == 0 ? 0 : random() % bytes;
      left -= random() % 2 == 0 ? left % disk_block_bytes : 0;
      ASSERT_TRUE(disk->truncate(*file, left));
      disk->close(*file);
      const auto now = look(GetParam(), *disk, before);
      ASSERT_EQ(now.wrong, 0u);
      lost += now.lost;
    }
  }
  EXPECT_GT(lost, 100u);
}

TEST_P(disk_store_damage, pages_that_rot_while_the_store_is_open_are_told_and_forgotten) {
  const auto before = live(GetParam(), true);
  store_harness again(GetParam(), *before.disk, tiny_store());
  again.know(before.tried);
  ASSERT_TRUE(again.recover());
  for (const auto& block : blocks_of(*before.disk, false))
    // Every page starts at a block border, so a flip in each block hits every page.
    before.disk->flip_bit(block.file, block.offset_bytes, 3);
  for (std::uint32_t i = 0; i < pages; ++i) {
    ASSERT_EQ(again.read_and_settle(i), disk_status::corrupt);
    ASSERT_EQ(again.store().find(key_of(i)), nullptr);
    ASSERT_EQ(again.read_and_settle(i), disk_status::not_found);
  }
  EXPECT_EQ(again.store().stats().corrupt, pages);
  EXPECT_EQ(again.wrong_pages(), 0u);
}

TEST_P(disk_store_damage, swapped_blocks_and_records_give_no_wrong_byte) {
  std::mt19937_64 random(5);
  std::uint64_t lost = 0;
  for (const bool closed : {true, false}) {
    const auto before = live(GetParam(), closed);
    const auto everywhere = blocks_of(*before.disk, false);
    for (int round = 0; round < 2000; ++round) {
      auto disk = before.disk->after_power_cut(1, survivors::all);
      const auto& a = everywhere[random() % everywhere.size()];
      const auto& b = everywhere[random() % everywhere.size()];
      // Swaps either whole blocks or single headers.
      const std::uint64_t bytes = random() % 2 == 0 ? disk_block_bytes : 128;
      const auto skip = bytes == 128 ? random() % 4 * 128 : 0;
      if (&a == &b)
        continue;
      disk->swap_ranges(a.file, a.offset_bytes + skip, b.file, b.offset_bytes + skip, bytes);
      const auto now = look(GetParam(), *disk, before);
      ASSERT_EQ(now.wrong, 0u) << round;
      ASSERT_TRUE(now.all_told()) << round;
      lost += now.lost;
    }
  }
  EXPECT_GT(lost, 100u);
}

TEST_P(disk_store_damage, with_the_checksum_switched_off_swapped_blocks_give_wrong_bytes) {
  const guard_switched_off off(guard::checksum);
  std::mt19937_64 random(6);
  std::uint64_t wrong = 0;
  const auto before = live(GetParam(), true);
  const auto everywhere = blocks_of(*before.disk, false);
  for (int round = 0; round < 100; ++round) {
    auto disk = before.disk->after_power_cut(1, survivors::all);
    const auto& a = everywhere[random() % everywhere.size()];
    const auto& b = everywhere[random() % everywhere.size()];
    if (&a == &b)
      continue;
    disk->swap_ranges(a.file, a.offset_bytes, b.file, b.offset_bytes, disk_block_bytes);
    wrong += look(GetParam(), *disk, before).wrong;
  }
  EXPECT_GT(wrong, 0u);
}

TEST_P(disk_store_damage, swapped_files_give_no_wrong_byte) {
  std::uint64_t lost = 0;
  bool swapped = false; // Stays false for a store that has only one file.
  for (const bool closed : {true, false}) {
    const auto before = live(GetParam(), closed);
    const auto files = before.disk->files();
    for (const auto& a : files)
      for (const auto& b : files) {
        if (a >= b)
          continue;
        auto disk = before.disk->after_power_cut(1, survivors::all);
        disk->swap_files(a, b);
        swapped = true;
        const auto now = look(GetParam(), *disk, before);
        ASSERT_EQ(now.wrong, 0u) << a << " and " << b;
        ASSERT_TRUE(now.all_told()) << a << " and " << b;
        lost += now.lost;
      }
  }
  EXPECT_EQ(lost > 0, swapped);
}

TEST_P(disk_store_damage, another_nodes_folder_has_nothing_for_us) {
  for (const bool closed : {true, false}) {
    const auto theirs = live(GetParam(), closed, 99);
    auto disk = theirs.disk->after_power_cut(1, survivors::all);
    store_harness ours(GetParam(), *disk, tiny_store());
    const auto report = ours.recover();
    ASSERT_TRUE(report);
    EXPECT_EQ(report->pages, 0u);
    EXPECT_GT(report->foreign, 0u);
    for (std::uint32_t i = 0; i < pages; ++i)
      ASSERT_EQ(ours.read_and_settle(i), disk_status::not_found);
    ASSERT_EQ(ours.write_and_settle({.number = 3, .version = 5}), disk_status::ok);
    ASSERT_EQ(ours.read_and_settle(3), disk_status::ok);
    EXPECT_EQ(ours.wrong_pages(), 0u);
  }
}

/// Copies a file of another node's store into this disk; replaces a file of the same name.
void plant(memory_disk_io& into, const std::string& name, const std::vector<std::byte>& bytes) {
  for (auto end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1))
    EXPECT_TRUE(into.make_folder(name.substr(0, end)));
  auto file = into.open(name);
  if (!file)
    file = into.create(name, bytes.size());
  ASSERT_TRUE(file && into.truncate(*file, bytes.size())) << name;
  into.close(*file);
  into.overwrite(name, 0, bytes);
}

TEST_P(disk_store_damage, files_of_another_node_among_ours_are_not_served) {
  for (const bool closed : {true, false}) {
    const auto theirs = live(GetParam(), closed, 99, 1000);
    const auto before = live(GetParam(), closed);
    auto disk = before.disk->after_power_cut(1, survivors::all);
    std::uint64_t planted = 0;
    for (const auto& name : theirs.disk->files()) {
      const auto bytes = theirs.disk->contents(name);
      if (bytes.empty() || planted == 3) // Plants three files; this store's other files stay.
        continue;
      ASSERT_NO_FATAL_FAILURE(plant(*disk, name, bytes));
      ++planted;
    }
    EXPECT_GT(planted, 0u);
    store_harness again(GetParam(), *disk, tiny_store());
    again.know(before.tried);
    const auto report = again.recover();
    ASSERT_TRUE(report);
    for (std::uint32_t i = 0; i < pages; ++i) {
      again.read(i);
      ASSERT_EQ(again.store().find(key_of(1000 + i)), nullptr);
    }
    again.settle();
    EXPECT_EQ(again.wrong_pages(), 0u);
    // The store `offset` meets the other node's records when it reads; the other stores meet them
    // when they scan.
    EXPECT_GT(report->foreign + again.store().stats().corrupt, 0u);
  }
}

} // namespace
} // namespace peercache::storage
