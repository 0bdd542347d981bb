// Tests of how the disk tier, with each of the stores, behaves on a device that fails: how soon it
// refuses writes, what it still serves, and that it recovers by itself once the device works. Time
// is simulated.

#include "storage/disk/bucket/bucket_format.hpp"
#include "storage/disk/disk_tier.hpp"
#include "tests/storage/disk/store_harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace peercache::storage::tier_faults_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::uint32_t page_bytes = 4 * disk_block_bytes;
constexpr auto write_every = 5;
constexpr auto read_every = 7;

/// A disk tier under a steady load of writes and reads; each turn takes a millisecond.
class tier_faults : public disk_stores {
protected:
  tier_faults() {
    io.set_delay(disk_operation::write, 1ms, 1ms);
    io.set_delay(disk_operation::read, 1ms, 1ms);
    io.set_delay(disk_operation::sync, 2ms, 2ms);
    const auto store = small_store();
    disk_tier_options options;
    options.size_bytes = store.size_bytes;
    tier.emplace(GetParam().make(io, store), options);
    EXPECT_TRUE(tier->recover({}, [](const disk_page&) {}));
  }
  ~tier_faults() override {
    io.heal();
    events = {};
    tier->close(10s, events);
    take();
  }

  void turn() {
    ++turns;
    io.advance(1ms);
    now += 1ms;
    if (turns % write_every == 0)
      write();
    if (turns % read_every == 0 && !durable.empty())
      read(static_cast<std::uint32_t>(turns * 7919 % durable.size()));
    go_on();
  }

  void go_on() {
    std::array<disk_completion, 64> done;
    const auto count = io.reap(done);
    tier->on_completions(io, {done.data(), count});
    events = {};
    tier->poll(now, 1000, events);
    take();
  }

  void run(milliseconds time) {
    for (; time > 0ms; time -= 1ms)
      turn();
  }

  template <class Condition>
  bool within(milliseconds time, Condition&& condition) {
    for (; time > 0ms && !condition(); time -= 1ms)
      turn();
    return condition();
  }

  void write() {
    const test_page page{.number = next++, .length_bytes = page_bytes};
    auto memory = make_blocks(page_bytes);
    fill(page, memory.get());
    const disk_write wanted{.key = key_of(page.number),
                            .gen = generation_of(page),
                            .checksum = checksum_of(page),
                            .memory = memory.get(),
                            .length_bytes = page_bytes,
                            .tag = ++tags};
    last = tier->write(wanted, now);
    ++skipped[last];
    if (last == write_skip::none)
      on_way.emplace(tags, transfer{page, std::move(memory)});
  }

  void read(std::uint32_t nth) {
    const test_page page{.number = durable[nth], .length_bytes = page_bytes};
    auto memory = make_blocks(page_bytes);
    tier->read({key_of(page.number), memory.get(), ++tags}, now);
    on_way.emplace(tags, transfer{page, std::move(memory)});
  }

  void take() {
    for (const auto& eviction : events.gone)
      for (const auto& page : eviction.pages)
        gone.insert(page.key);
    for (const auto& event : events.done) {
      const auto found = on_way.find(event.tag);
      ASSERT_NE(found, on_way.end()) << "an event of nothing, or a second one";
      const bool ok = event.status == disk_status::ok;
      if (event.what == disk_event::kind::written) {
        ++(ok ? written : failed);
        if (ok)
          durable.push_back(found->second.page.number);
      } else {
        ++(ok ? read_well : read_badly);
        wrong += ok && !holds(found->second.page, found->second.memory.get());
      }
      on_way.erase(found);
    }
  }

  /// Returns how many writes the tier has accepted.
  std::uint64_t taken() { return skipped[write_skip::none]; }

  /// Expects that each page that was called durable is read back right, unless the tier has
  /// reported it as gone. @pre the device works again
  void expect_all_served() {
    for (int i = 0; i < 1000 && !on_way.empty(); ++i) {
      io.advance(1ms);
      now += 1ms;
      go_on();
    }
    ASSERT_TRUE(on_way.empty());
    const auto bad = read_badly;
    for (std::uint32_t nth = 0; nth < durable.size(); ++nth) {
      if (gone.contains(key_of(durable[nth])))
        continue;
      read(nth);
      for (int i = 0; i < 1000 && !on_way.empty(); ++i) {
        io.advance(1ms);
        go_on();
      }
    }
    EXPECT_EQ(read_badly, bad);
    EXPECT_EQ(wrong, 0u);
  }

  struct transfer {
    test_page page;
    disk_blocks memory;
  };

  memory_disk_io io;
  std::optional<disk_tier> tier;
  disk_tier_events events;
  disk_clock::time_point now{1h};
  std::uint64_t turns = 0;
  std::uint32_t next = 0;
  std::uint64_t tags = 0;
  std::map<std::uint64_t, transfer> on_way;
  std::map<write_skip, std::uint64_t> skipped;
  write_skip last = write_skip::none; ///< Why the tier skipped the last write; `none`: accepted.
  std::vector<std::uint32_t> durable; ///< Numbers of the pages that the tier has called durable.
  std::set<page_key> gone;
  std::uint64_t written = 0, failed = 0, read_well = 0, read_badly = 0, wrong = 0;
};

INSTANTIATE_TEST_SUITE_P(kinds, tier_faults, testing::ValuesIn(all_store_kinds()), name_of);

TEST_P(tier_faults, when_all_fails_no_write_is_taken_within_a_second_until_it_is_well_again) {
  run(500ms);
  ASSERT_GT(durable.size(), 20u);
  io.fail_all(EIO);
  ASSERT_TRUE(within(1s, [&] { return last == write_skip::breaker_open; }));
  EXPECT_NE(tier->stats().breaker, circuit_breaker::state::closed);
  const auto before = taken();
  run(10s);
  EXPECT_LE(taken() - before, 10u) << "but probes";
  io.heal();
  const auto was_written = written;
  EXPECT_TRUE(within(11s, [&] {
    return written > was_written + 10 && tier->stats().breaker == circuit_breaker::state::closed;
  }));
  expect_all_served();
}

TEST_P(tier_faults, a_device_that_takes_no_write_is_left_alone_with_writes_and_still_read) {
  run(500ms);
  io.fail_share(disk_operation::write, 1, EIO);
  io.fail_share(disk_operation::sync, 1, EIO);
  ASSERT_TRUE(within(1s, [&] { return last == write_skip::breaker_open; }));
  const auto before = taken();
  const auto was_read = read_well;
  run(10s);
  EXPECT_LE(taken() - before, 10u) << "but probes";
  EXPECT_GT(read_well, was_read + 1000);
  EXPECT_EQ(read_badly, 0u);
  io.heal();
  EXPECT_TRUE(within(11s, [&] { return last == write_skip::none; }));
  expect_all_served();
}

TEST_P(tier_faults, a_full_device_is_not_written_to_within_a_second_until_there_is_room) {
  run(500ms);
  io.set_capacity(0);
  // Makes writes fail, too, because files that already have their final length need no more room.
  io.fail_share(disk_operation::write, 1, ENOSPC);
  ASSERT_TRUE(within(1s, [&] { return last == write_skip::paused; }));
  const auto before = taken();
  const auto was_read = read_well;
  run(5s);
  EXPECT_LE(taken() - before, 100u) << "of 1000: it is tried twice a second";
  EXPECT_GT(read_well, was_read + 500);
  EXPECT_EQ(read_badly, 0u);
  EXPECT_EQ(tier->stats().breaker_opened, 0u);
  io.set_capacity(1u << 30);
  io.heal();
  const auto was_written = written;
  EXPECT_TRUE(within(1s, [&] { return written > was_written; }));
  EXPECT_FALSE(tier->pauses());
  expect_all_served();
}

TEST_P(tier_faults, of_a_share_that_fails_each_page_is_counted_and_what_was_stored_is_right) {
  for (const double share : {0.01, 0.2}) {
    SCOPED_TRACE(share);
    for (const auto what : {disk_operation::read, disk_operation::write, disk_operation::sync,
                            disk_operation::metadata})
      io.fail_share(what, share, EIO);
    run(4s);
    io.heal();
    expect_all_served();
    EXPECT_GT(failed, 0u);
    EXPECT_GT(written, 0u);
    EXPECT_EQ(written + failed, taken());
    EXPECT_EQ(taken() + skipped[write_skip::breaker_open], next) << "nothing else is skipped";
    const auto stats = tier->stats();
    EXPECT_EQ(stats.writes, written);
    EXPECT_EQ(stats.write_errors, failed);
    EXPECT_EQ(stats.skipped[static_cast<std::size_t>(write_skip::breaker_open)],
              skipped[write_skip::breaker_open]);
  }
}

} // namespace
} // namespace peercache::storage::tier_faults_test
