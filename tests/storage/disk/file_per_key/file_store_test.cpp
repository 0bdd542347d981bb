#include "storage/disk/file_per_key/file_store.hpp"

#include "common/test_guards.hpp"
#include "storage/disk/file_per_key/file_names.hpp"
#include "tests/storage/disk/io/disk_io_rig.hpp"
#include "tests/storage/disk/store_harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;
using event_kind = disk_event::kind;

const store_kind files{"file_per_key", make_file_store};

store_harness open(memory_disk_io& io) {
  return {files, io, small_store()};
}

TEST(file_store, files_are_called_by_the_digest_in_two_levels_of_folders) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1}), disk_status::ok);
  const auto hex = to_string(key_of(1));
  ASSERT_EQ(hex[0], 'c'); // The digest begins with the bits 1100, so its folders are 3 and 0.
  EXPECT_EQ(io.files(), std::vector<std::string>{"pages/3/0/" + hex});
  EXPECT_EQ(io.contents(io.files()[0]).size(), 2 * disk_block_bytes);
}

TEST(file_store, names_are_read_back_and_others_are_not) {
  const auto key = key_of(1);
  const auto hex = to_string(key);
  const auto folder = page_folder_number(key);
  EXPECT_EQ(parse_page_file(hex, folder), key);
  // The name is refused in a folder that does not belong to the key.
  EXPECT_FALSE(parse_page_file(hex, folder ^ 1));
  EXPECT_FALSE(parse_page_file(hex.substr(1), folder));
  auto upper = hex;
  std::transform(upper.begin(), upper.end(), upper.begin(), ::toupper);
  EXPECT_FALSE(parse_page_file(upper, folder));
  const auto temporary = temporary_page_file(key, 7);
  EXPECT_TRUE(is_temporary_page_file(temporary.substr(temporary.rfind('/') + 1)));
  EXPECT_FALSE(is_temporary_page_file(hex));
  EXPECT_EQ(page_folder(0x8), "pages/2/0");
  EXPECT_EQ(page_folder(0x3), "pages/0/3");
}

TEST(file_store, a_start_removes_what_was_on_its_way_and_leaves_what_is_not_ours) {
  memory_disk_io io;
  {
    auto there = open(io);
    ASSERT_TRUE(there.recover());
    ASSERT_EQ(there.write_and_settle({.number = 1}), disk_status::ok);
  }
  const auto folder = page_folder(page_folder_number(key_of(1)));
  ASSERT_TRUE(io.create(temporary_page_file(key_of(1), 9), 4096));
  ASSERT_TRUE(io.create(folder + "/README", 4096));
  auto again = open(io);
  const auto report = again.recover();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->pages, 1u);
  EXPECT_EQ(report->torn, 1u);
  EXPECT_EQ(io.files(), (std::vector<std::string>{folder + "/README", page_file(key_of(1))}));
}

/// With few folders all are read at the same time, so a start must also report progress within a
/// folder.
TEST(file_store, a_start_tells_how_far_it_is_within_a_folder) {
  memory_disk_io io;
  constexpr std::uint32_t pages = page_folders * 320;
  {
    auto there = open(io);
    ASSERT_TRUE(there.recover());
    for (std::uint32_t i = 0; i < pages; ++i) {
      there.write({.number = i, .length_bytes = 1});
      if (i % 64 == 63)
        there.settle();
    }
    there.close();
  }
  auto again = open(io);
  std::vector<double> shares;
  const auto report = again.recover(
      {.threads = 1, .progress = [&](std::uint64_t, double share) { shares.push_back(share); }});
  ASSERT_TRUE(report);
  ASSERT_EQ(report->pages, pages);
  EXPECT_GT(shares.size(), page_folders + 5);
  EXPECT_GT(shares.front(), 0.0);
  EXPECT_LT(shares.front(), 1.0 / page_folders);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
}

void swap_two(memory_disk_io& io) {
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 2; ++i)
    ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  io.swap_files(page_file(key_of(0)), page_file(key_of(1)));
}

TEST(file_store, a_file_with_anothers_name_is_a_miss) {
  memory_disk_io io;
  swap_two(io);
  auto again = open(io);
  const auto report = again.recover();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->torn, 2u);
  EXPECT_EQ(again.read_and_settle(0), disk_status::not_found);
  EXPECT_TRUE(io.files().empty());
}

TEST(file_store, with_the_key_not_compared_a_file_with_anothers_name_gives_a_wrong_page) {
  const guard_switched_off off(guard::key);
  memory_disk_io io;
  swap_two(io);
  auto again = open(io);
  ASSERT_TRUE(again.recover());
  EXPECT_EQ(again.read_and_settle(0), disk_status::ok);
  EXPECT_EQ(again.wrong_pages(), 1u);
}

TEST(file_store, writes_that_come_together_share_a_round_of_syncs) {
  memory_disk_io io;
  io.set_delay(disk_operation::write, 1us, 1ms);
  io.set_delay(disk_operation::sync, 1h);
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 30; ++i)
    there.write({.number = i});
  there.step();
  EXPECT_EQ(there.store().stats().syncs, 0u);
  for (int i = 0; i < 3; ++i) {
    there.pass(1ms);
    there.step();
  }
  // Each of the 30 files has a sync of its own; the device gets all of them at once.
  EXPECT_EQ(there.store().stats().syncs, 30u);
  EXPECT_EQ(there.on_way(), 30u);
  there.settle();
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), 30u);
}

TEST(file_store, the_device_begins_with_the_first_files_while_others_are_made) {
  memory_disk_io io;
  io.set_delay(disk_operation::write, 1h, 1h);
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < file_store::writes_at_once; ++i)
    there.write({.number = i});
  EXPECT_EQ(io.in_flight(), 0u);
  // The store refuses this write until it has begun some of the earlier writes.
  there.write({.number = file_store::writes_at_once});
  EXPECT_EQ(io.in_flight(), file_store::writes_at_once);
  EXPECT_EQ(there.on_way(), file_store::writes_at_once + 1);
  there.settle();
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), file_store::writes_at_once + 1);
}

/// Writes a page and steps until its file has been renamed to the page's name, and only the sync of
/// the folder is missing.
void step_until_named(store_harness& there, memory_disk_io& io, const test_page& page) {
  const auto contents = [&] {
    const auto names = io.files();
    const auto name = page_file(key_of(page.number));
    return std::ranges::count(names, name) != 0 ? io.contents(name) : std::vector<std::byte>();
  };
  const auto before = contents();
  io.set_delay(disk_operation::sync, 1h);
  there.write(page);
  for (int i = 0; i < 3; ++i)
    there.step(); // The steps: the page's transfers, then the sync of the file.
  there.pass(1h);
  there.step();
  ASSERT_NE(contents(), before);
  ASSERT_EQ(there.on_way(), 1u);
}

TEST(file_store, folders_of_a_round_are_synced_together_beside_the_next_rounds_files) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  // Makes the folders, and makes them durable, before the writes whose syncs the test counts.
  for (std::uint32_t i = 1; i < 12; ++i)
    there.write({.number = i});
  there.settle();
  const auto begin = io.now();
  step_until_named(there, io, {.number = 1, .version = 2});
  const auto syncs = there.store().stats().syncs;
  for (std::uint32_t i = 2; i < 12; ++i)
    there.write({.number = i, .version = 2});
  for (int i = 0; i < 3; ++i)
    there.step();
  EXPECT_EQ(there.store().stats().syncs, syncs + 10);
  there.settle();
  EXPECT_EQ(there.events(event_kind::written, disk_status::ok), 22u);
  EXPECT_LE(io.now() - begin, 4h) << "folders were synced one after the other";
}

TEST(file_store, a_page_whose_folder_cannot_be_synced_is_no_page) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  // Lets the file's sync succeed and the folder's, which comes after it, fail.
  io.fail_once(disk_operation::sync, 1, EIO);
  EXPECT_EQ(there.write_and_settle({.number = 1}), disk_status::io_failed);
  EXPECT_EQ(there.store().find(key_of(1)), nullptr);
  EXPECT_TRUE(io.files().empty());
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
  EXPECT_EQ(there.write_and_settle({.number = 1}), disk_status::ok);
}

TEST(file_store, a_page_is_not_read_while_another_gets_its_name) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 1}), disk_status::ok);
  step_until_named(there, io, {.number = 1, .version = 2});
  const block_memory memory(disk_block_bytes);
  EXPECT_FALSE(there.store().read({.key = key_of(1), .memory = memory.data(), .tag = 100}));
  there.settle();
  EXPECT_EQ(there.written(1), disk_status::ok);
  EXPECT_EQ(there.read_and_settle(1), disk_status::ok);
  EXPECT_EQ(there.wrong_pages(), 0u);
  EXPECT_EQ(there.store().stats().corrupt, 0u);
}

TEST(file_store, a_page_that_is_evicted_while_another_gets_its_name_leaves_it_to_that) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 1}), disk_status::ok);
  step_until_named(there, io, {.number = 1, .version = 2});
  const auto eviction = there.store().begin_eviction(1);
  ASSERT_EQ(eviction.pages.size(), 1u);
  there.store().finish_eviction(eviction.ticket);
  there.settle();
  there.step();
  EXPECT_EQ(there.written(1), disk_status::ok);
  EXPECT_EQ(there.read_and_settle(1), disk_status::ok);
  EXPECT_EQ(there.store().stats().used_bytes, 2 * disk_block_bytes);
}

TEST(file_store, a_page_that_is_erased_while_another_gets_its_name_takes_it_along) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 1}), disk_status::ok);
  step_until_named(there, io, {.number = 1, .version = 2});
  EXPECT_TRUE(there.store().erase(key_of(1)));
  there.settle();
  there.step();
  EXPECT_EQ(there.written(1), disk_status::refused);
  EXPECT_TRUE(io.files().empty());
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
}

TEST(file_store, a_page_of_an_erased_key_that_is_on_its_way_never_appears) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  there.write({.number = 1});
  there.step();
  EXPECT_FALSE(there.store().erase(key_of(1)));
  there.settle();
  EXPECT_EQ(there.written(1), disk_status::refused);
  EXPECT_EQ(there.store().find(key_of(1)), nullptr);
  EXPECT_TRUE(io.files().empty());
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
}

TEST(file_store, a_key_that_is_written_while_it_is_evicted_keeps_its_new_file) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 1}), disk_status::ok);
  const auto eviction = there.store().begin_eviction(1);
  ASSERT_EQ(eviction.pages.size(), 1u);
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 2}), disk_status::ok);
  there.store().finish_eviction(eviction.ticket);
  there.step();
  EXPECT_EQ(there.store().stats().used_bytes, 2 * disk_block_bytes);
  EXPECT_EQ(there.read_and_settle(1), disk_status::ok);
  EXPECT_EQ(there.wrong_pages(), 0u);
}

TEST(file_store, a_file_that_somebody_removed_is_not_found_and_forgotten) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1}), disk_status::ok);
  ASSERT_TRUE(io.remove(page_file(key_of(1))));
  EXPECT_EQ(there.read_and_settle(1), disk_status::not_found);
  EXPECT_EQ(there.store().find(key_of(1)), nullptr);
  there.step();
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
}

TEST(file_store, a_file_that_cannot_be_removed_is_tried_again_and_keeps_no_other_waiting) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  for (std::uint32_t i = 0; i < 3; ++i)
    there.store().erase(key_of(i));
  io.fail_once(disk_operation::metadata, 0, EIO);
  there.step();
  EXPECT_EQ(io.files().size(), 1u);
  EXPECT_EQ(there.store().stats().used_bytes, 2 * disk_block_bytes);
  EXPECT_EQ(there.store().stats().leaving_bytes, 2 * disk_block_bytes);
  there.pass(999ms);
  there.step();
  EXPECT_EQ(io.files().size(), 1u) << "not at once again";
  there.pass(1ms);
  there.step();
  EXPECT_TRUE(io.files().empty());
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
  EXPECT_EQ(there.store().stats().leaving_bytes, 0u);
}

TEST(file_store, a_file_that_cannot_be_removed_leaves_a_newer_one_its_name) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 1}), disk_status::ok);
  there.store().erase(key_of(1));
  io.fail_once(disk_operation::metadata, 0, EIO);
  there.step();
  ASSERT_EQ(there.write_and_settle({.number = 1, .version = 2}), disk_status::ok);
  there.pass(2s);
  there.step();
  EXPECT_EQ(there.read_and_settle(1), disk_status::ok);
  EXPECT_EQ(there.wrong_pages(), 0u);
  EXPECT_EQ(there.store().stats().used_bytes, 2 * disk_block_bytes);
  EXPECT_EQ(there.store().stats().leaving_bytes, 0u);
}

TEST(file_store, the_file_of_a_failed_write_takes_room_until_it_is_removed) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  there.write({.number = 1});
  io.fail_once(disk_operation::write, 0, EIO);
  io.fail_once(disk_operation::metadata, 0, EIO);
  there.settle();
  EXPECT_EQ(there.written(1), disk_status::io_failed);
  EXPECT_EQ(io.files().size(), 1u);
  EXPECT_EQ(there.store().stats().used_bytes, 2 * disk_block_bytes);
  there.pass(1s);
  there.step();
  EXPECT_TRUE(io.files().empty());
  EXPECT_EQ(there.store().stats().used_bytes, 0u);
  EXPECT_EQ(there.store().stats().leaving_bytes, 0u);
}

TEST(file_store, files_that_cannot_be_removed_hold_up_no_close) {
  memory_disk_io io;
  auto there = open(io);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 10; ++i)
    ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  for (std::uint32_t i = 0; i < 10; ++i)
    there.store().erase(key_of(i));
  io.fail_share(disk_operation::metadata, 1, EIO);
  const auto begin = disk_clock::now();
  there.close(1h);
  EXPECT_LT(disk_clock::now() - begin, 1min);
  EXPECT_EQ(io.files().size(), 10u);
}

TEST(file_store, what_was_read_last_goes_last_when_the_order_is_by_use) {
  memory_disk_io io;
  auto options = small_store();
  options.lru = true;
  store_harness there(files, io, options);
  ASSERT_TRUE(there.recover());
  for (std::uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(there.write_and_settle({.number = i}), disk_status::ok);
  ASSERT_EQ(there.read_and_settle(0), disk_status::ok);
  const auto eviction = there.store().begin_eviction(2 * disk_block_bytes);
  ASSERT_EQ(eviction.pages.size(), 1u);
  EXPECT_EQ(eviction.pages[0].key, key_of(1));
}

} // namespace
} // namespace peercache::storage
