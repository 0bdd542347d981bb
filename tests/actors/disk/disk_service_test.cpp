// Tests of the disk's thread without its actor: commands, turns and the report, on a real folder.
// The test's thread plays the disk's thread.

#include "tests/actors/disk_service_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace peercache::actors {
namespace {

using metrics::metric;

constexpr std::uint32_t page_bytes = 16384;

class disk_service_test : public disk_service_rig {
protected:
  disk_service_test() : disk_service_rig("disk-service", page_bytes, 4u << 20) {
    config.disk.size_bytes = 64u << 20;
    config.disk.bucket_bytes = 1u << 20;
    config.disk.queue_bytes = 1u << 20;
  }

  /// Opens the service again on the same folder, as the node's next process does.
  disk_service& open() {
    disk.reset();
    told.clear();
    open_disk();
    return *disk;
  }

  /// Runs the loop of the disk's thread until `enough` returns true after a turn.
  template <class Enough>
  void run_until(Enough&& enough) {
    disk->run([&](const disk_turn_ptr& turn) {
      told.push_back(*turn);
      if (enough())
        disk->stop();
    });
  }

  std::string wanted(std::vector<std::uint32_t> numbers) const {
    std::string records;
    for (const auto number : numbers)
      append_record(records, wanted_page{key_of(number), slot_of(number), page_bytes});
    return records;
  }

  std::size_t stored() const {
    std::size_t count = 0;
    for (const auto& turn : told)
      count += record_count<stored_page>(turn.stored).value_or(0);
    return count;
  }

  /// Returns the answers of all turns so far, by request number.
  std::map<std::uint64_t, disk_turn::answer> answers() const {
    std::map<std::uint64_t, disk_turn::answer> all;
    for (const auto& turn : told)
      for (const auto& answer : turn.answers)
        EXPECT_TRUE(all.emplace(answer.request, answer).second) << "answered twice";
    return all;
  }

  void store_pages(std::uint32_t count) {
    open();
    for (std::uint32_t number = 0; number < count; ++number)
      disk->write(kept(number));
    run_until([&] { return stored() == count; });
    ASSERT_EQ(stored(), count);
  }

  std::vector<disk_turn> told;
};

TEST(disk_gate, a_page_larger_than_all_of_the_room_is_let_in_alone) {
  disk_gate gate(1000);
  gate.set_open(true);
  EXPECT_TRUE(gate.has_room(1500, 2));
  EXPECT_TRUE(gate.enter(1500));
  EXPECT_FALSE(gate.has_room(1, 2));
  EXPECT_FALSE(gate.enter(1));
  gate.leave(1500);
  EXPECT_TRUE(gate.enter(400));
  EXPECT_FALSE(gate.has_room(1500, 2));
  EXPECT_FALSE(gate.enter(1500)) << "another page waits";
  EXPECT_EQ(gate.bytes(), 400u);
}

INSTANTIATE_TEST_SUITE_P(with, disk_service_test, all_disk_stores, store_name);

TEST_P(disk_service_test, what_is_asked_during_the_scan_is_answered_after_it) {
  ASSERT_NO_FATAL_FAILURE(store_pages(4));
  std::memset(bytes_of(0).data(), 0, 4 * page_bytes);
  open();
  EXPECT_LT(disk->scanned(), 1);
  disk->load(1, wanted({0, 1, 99}));
  disk->walk(2, 0, 100);
  std::string keys;
  append_record(keys, key_of(3));
  append_record(keys, key_of(99));
  disk->remove(3, keys);
  run_until([&] { return answers().size() == 3; });
  EXPECT_EQ(disk->scanned(), 1);
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told.front().scanned);

  const auto all = answers();
  const auto& loaded = all.at(1).records;
  ASSERT_EQ(record_count<loaded_page>(loaded), 3u);
  EXPECT_EQ(record_at<loaded_page>(loaded, 0).found, 1u);
  EXPECT_EQ(record_at<loaded_page>(loaded, 1).found, 1u);
  EXPECT_EQ(record_at<loaded_page>(loaded, 2).found, 0u);
  for (const std::uint32_t number : {0, 1})
    EXPECT_TRUE(std::all_of(bytes_of(number).begin(), bytes_of(number).end(),
                            [&](std::byte byte) { return byte == std::byte(number + 1); }));
  EXPECT_TRUE(all.at(2).is_walk);
  EXPECT_EQ(record_count<stored_page>(all.at(2).records), 4u);
  EXPECT_EQ(static_cast<page_status>(all.at(3).records.at(0)), page_status::hit);
  EXPECT_EQ(static_cast<page_status>(all.at(3).records.at(1)), page_status::not_found);
  EXPECT_EQ(disk->samples().count(metric::disk_recovered_records), 4u);
  EXPECT_EQ(disk->samples().count(metric::disk_records), 3u);
}

TEST_P(disk_service_test, whoever_asked_for_a_page_that_is_not_there_is_told_that_it_is_gone) {
  open();
  disk->load(1, wanted({7}));
  run_until([&] { return !answers().empty(); });
  std::string gone;
  for (const auto& turn : told)
    for (const auto& left : turn.gone)
      gone += left.keys;
  ASSERT_EQ(record_count<page_key>(gone), 1u);
  EXPECT_EQ(record_at<page_key>(gone, 0), key_of(7));
}

/// Promoted pages count as being on disk: nothing would write this one when memory evicts it.
TEST_P(disk_service_test, a_page_that_leaves_the_disk_during_its_read_is_not_found) {
  ASSERT_NO_FATAL_FAILURE(store_pages(2));
  open();
  disk->load(1, wanted({0, 1}));
  disk->walk(2, 0, 100); // The answer comes in the turn that begins the reads.
  std::string keys;
  append_record(keys, key_of(0));
  bool removes = false;
  run_until([&] {
    if (!std::exchange(removes, true)) {
      EXPECT_EQ(answers().size(), 1u);
      disk->remove(3, keys); // The next turn removes the page before it takes completions.
    }
    return answers().size() == 3;
  });
  const auto loaded = answers().at(1).records;
  EXPECT_EQ(record_at<loaded_page>(loaded, 0).found, 0u);
  EXPECT_EQ(record_at<loaded_page>(loaded, 1).found, 1u);
}

TEST_P(disk_service_test, no_file_for_new_pages_takes_the_whole_disk) {
  config.disk.bucket_bytes = 1u << 30;
  ASSERT_NO_FATAL_FAILURE(store_pages(1));
  EXPECT_LT(disk->samples().count(metric::disk_bytes), config.disk.size_bytes / 2);
}

TEST_P(disk_service_test, the_report_says_verifying_from_the_request_to_the_end) {
  ASSERT_NO_FATAL_FAILURE(store_pages(4));
  open();
  EXPECT_FALSE(disk->report().verifying);
  disk->verify();
  EXPECT_TRUE(disk->report().verifying) << "the disk's thread has not begun";
  std::uint64_t walks = 0;
  disk->walk(++walks, 0, 100); // Each answer is a turn, after which the test looks at the report.
  run_until([&] {
    if (!disk->report().verifying)
      return true;
    disk->walk(++walks, 0, 100);
    return false;
  });
  EXPECT_EQ(disk->samples().count(metric::disk_scrubbed_bytes_total), 4 * page_bytes);
}

TEST_P(disk_service_test, a_page_lets_go_of_its_slot_and_the_gate_when_it_is_durable) {
  ASSERT_NO_FATAL_FAILURE(store_pages(4));
  for (std::uint32_t number = 0; number < 4; ++number)
    EXPECT_EQ(memory->slots().pins(slot_of(number)), 0u);
  EXPECT_EQ(disk->gate().bytes(), 0u);
  const auto said = disk->samples();
  EXPECT_EQ(said.value(metric::disk_on), 1);
  EXPECT_EQ(said.value(metric::disk_scanned_ratio), 1);
  EXPECT_EQ(said.count(metric::disk_info, {disk->report().store, disk->report().io}), 1u);
  EXPECT_EQ(said.count(metric::disk_writes_total), 4u);
  EXPECT_EQ(said.count(metric::disk_records), 4u);
  EXPECT_EQ(said.count(metric::disk_record_bytes), 4 * page_bytes);
  EXPECT_EQ(said.count(metric::disk_queue_bytes), 0u);
  EXPECT_EQ(said.count(metric::disk_bytes_capacity), config.disk.size_bytes);
  EXPECT_GE(said.count(metric::disk_bytes), 4 * page_bytes);
  EXPECT_EQ(said.value(metric::disk_breaker_open), 0);
  EXPECT_EQ(disk->report().breaker, "closed");
  EXPECT_EQ(said.latency(metric::disk_op_seconds, {"write"}).count, 4u);
}

TEST_P(disk_service_test, a_page_that_is_on_disk_is_told_to_be_stored_without_a_write) {
  ASSERT_NO_FATAL_FAILURE(store_pages(1));
  open();
  disk->write(kept(0));
  EXPECT_EQ(disk->samples().count(metric::disk_queue_bytes), page_bytes) << "of this moment";
  run_until([&] { return stored() == 1; });
  EXPECT_EQ(disk->samples().count(metric::disk_writes_total), 0u);
  EXPECT_EQ(disk->samples().count(metric::disk_skips_total, {"on_disk"}), 1u);
  EXPECT_EQ(memory->slots().pins(slot_of(0)), 0u);
  EXPECT_EQ(disk->gate().bytes(), 0u);
}

TEST_P(disk_service_test, a_stop_with_loads_and_writes_open_ends_and_gives_all_memory_back) {
  ASSERT_NO_FATAL_FAILURE(store_pages(2));
  open();
  disk->load(1, wanted({0, 1}));
  disk->write(kept(2));
  EXPECT_EQ(disk->gate().bytes(), page_bytes);
  disk->stop(); // The service is told to stop before it has begun any command.
  run_until([] { return true; });
  const auto all = answers();
  ASSERT_EQ(all.count(1), 1u) << "who waits hears of it";
  EXPECT_EQ(record_at<loaded_page>(all.at(1).records, 0).found, 0u);
  EXPECT_EQ(stored(), 0u);
  EXPECT_EQ(disk->gate().bytes(), 0u);
  EXPECT_FALSE(disk->gate().open());
  EXPECT_EQ(memory->slots().pins(slot_of(2)), 0u);
  EXPECT_EQ(disk->samples().count(metric::disk_queue_bytes), 0u);
  open();
  disk->walk(1, 0, 100);
  run_until([&] { return !answers().empty(); });
  EXPECT_EQ(record_count<stored_page>(answers().at(1).records), 2u) << "the folder is well";
}

/// The disk reports the keys of the forgotten pages, so that their records are withdrawn.
TEST_P(disk_service_test, pages_of_a_space_that_was_cleared_are_forgotten) {
  ASSERT_NO_FATAL_FAILURE(store_pages(4));
  open();
  memory->epochs().raise(space_of(key_of(0)), 1);
  disk->load(1, wanted({0}));
  disk->forget_old();
  const auto gone = [&] {
    std::set<page_key> keys;
    for (const auto& turn : told)
      for (const auto& left : turn.gone)
        for (std::size_t i = 0; i < record_count<page_key>(left.keys).value_or(0); ++i)
          keys.insert(record_at<page_key>(left.keys, i));
    return keys;
  };
  run_until([&] { return gone().size() == 4 && !answers().empty(); });
  EXPECT_EQ(record_at<loaded_page>(answers().at(1).records, 0).found, 0u);
  EXPECT_EQ(disk->samples().count(metric::disk_records), 0u);
}

TEST_P(disk_service_test, a_page_of_a_space_that_was_cleared_is_not_read) {
  ASSERT_NO_FATAL_FAILURE(store_pages(2));
  open();
  run_until([&] {
    // The epoch is raised only after the scan, which would otherwise have forgotten the page.
    if (memory->epochs().raise(space_of(key_of(0)), 1))
      disk->load(1, wanted({0}));
    return !answers().empty();
  });
  EXPECT_EQ(record_at<loaded_page>(answers().at(1).records, 0).found, 0u);
}

TEST_P(disk_service_test, pages_of_a_space_that_was_cleared_are_forgotten_at_the_next_start) {
  ASSERT_NO_FATAL_FAILURE(store_pages(4));
  memory->epochs().raise(space_of(key_of(0)), 1);
  open();
  run_until([&] {
    std::size_t gone = 0;
    for (const auto& turn : told)
      for (const auto& left : turn.gone)
        gone += record_count<page_key>(left.keys).value_or(0);
    return gone == 4;
  });
  EXPECT_EQ(disk->samples().count(metric::disk_records), 0u);
  EXPECT_EQ(disk->samples().count(metric::cleared_pages_total, {"disk"}), 4u);
}

TEST_P(disk_service_test, a_page_of_a_space_that_was_cleared_is_not_written) {
  open();
  memory->epochs().raise(space_of(key_of(0)), 1);
  disk->write(kept(0));
  EXPECT_EQ(disk->gate().bytes(), page_bytes);
  run_until([&] { return disk->gate().bytes() == 0 || disk->scanned() >= 1; });
  EXPECT_EQ(stored(), 0u);
  EXPECT_EQ(disk->gate().bytes(), 0u);
  EXPECT_EQ(memory->slots().pins(slot_of(0)), 0u);
}

TEST_P(disk_service_test, what_was_cleared_is_remembered_in_the_folder) {
  open();
  cleared_spaces before(memory->epochs(), member_named("here", 1).inc);
  before.raise(space_named("a"), 3);
  disk->keep_cleared(1, before.encode_for_disk());
  run_until([&] { return !answers().empty(); });
  EXPECT_EQ(answers().at(1).records, "");
  EXPECT_EQ(disk->why_not_kept(), "");
  disk.reset();
  auto other = std::make_unique<storage::epoch_block>();
  cleared_spaces after(storage::epoch_table(*other), member_named("here", 2).inc);
  disk = disk_service::open(config, member_named("here", 2), *memory, &after);
  EXPECT_TRUE(disk->on());
  EXPECT_EQ(after.epoch_of(space_named("a")), 3u);
}

/// When the disk's file of cleared spaces is damaged, nobody knows which of its pages were cleared,
/// so the disk must stay off.
TEST_P(disk_service_test, is_off_where_what_was_cleared_cannot_be_read) {
  open();
  disk->keep_cleared(1, "of another version");
  run_until([&] { return !answers().empty(); });
  disk.reset();
  cleared_spaces known(memory->epochs(), member_named("here", 1).inc);
  disk = disk_service::open(config, member_named("here", 1), *memory, &known);
  EXPECT_FALSE(disk->on());
  EXPECT_NE(disk->why_not_kept(), "") << "and no clear is certain, for its pages may be back";
}

TEST_P(disk_service_test, one_that_is_off_says_why_and_does_nothing) {
  config.disk.path.clear();
  const auto off = disk_service::open(config, member_named("here", 1), *memory);
  EXPECT_FALSE(off->on());
  EXPECT_EQ(off->report().why_off, "disk.path is not set");
  EXPECT_EQ(off->samples().value(metric::disk_on), 0);
  EXPECT_EQ(off->samples().value(metric::disk_scanned_ratio), 1) << "there is nothing to scan";
  EXPECT_EQ(off->scanned(), 1);
  EXPECT_FALSE(off->gate().enter(page_bytes));
  off->verify();
  // `run` returns at once, because the service is off.
  off->run([](const disk_turn_ptr&) { ADD_FAILURE(); });
}

} // namespace
} // namespace peercache::actors
