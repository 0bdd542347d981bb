#include "tests/storage/disk/store_harness.hpp"
#include "tests/support/thorough.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;

class disk_store_power_cut : public disk_stores {};

INSTANTIATE_TEST_SUITE_P(kinds, disk_store_power_cut, testing::ValuesIn(all_store_kinds()),
                         name_of);

/// What a store had done when its power was cut.
struct life {
  std::map<std::uint32_t, test_page> durable; ///< Pages that must be found afterwards.
  std::map<std::uint32_t, std::vector<test_page>> tried;
};

disk_store_options three_buckets() {
  auto options = small_store(2u << 20);
  options.bucket_bytes = 128u << 10;
  options.bucket_keys = 12;
  return options;
}

/// Runs the store until the power cut, or until `recover` fails. The run fills more than three
/// buckets: pages have many sizes, several are written at a time, some are replaced, one is erased,
/// some are evicted. One bucket is closed because it is full, one because of its age (the clock
/// passes 11 s), and one is still open at the end.
life live(const store_kind& kind, memory_disk_io& io) {
  store_harness there(kind, io, three_buckets());
  std::set<std::uint32_t> gone;
  const auto state = [&] {
    life now{there.durable(), there.tried()};
    for (const auto number : gone)
      now.durable.erase(number);
    return now;
  };
  if (!there.recover({.threads = 1, .waiting_threads = 1}))
    return state();
  const auto write_some = [&](std::uint32_t from, std::uint32_t to) {
    for (auto i = from; i < to; ++i) {
      there.write({.number = i % 24, .version = i / 24, .length_bytes = 1 + i * 5531 % 20'000});
      if (i % 3 == 0)
        there.step();
    }
  };
  write_some(0, 24);
  there.settle();
  there.store().erase(key_of(5));
  gone.insert(5);
  const auto eviction = there.store().begin_eviction(60'000);
  for (std::uint32_t i = 0; i < 24; ++i)
    if (there.store().find(key_of(i)) == nullptr)
      gone.insert(i);
  there.store().finish_eviction(eviction.ticket);
  write_some(24, 32);
  there.pass(11s);
  for (int i = 0; i < 8; ++i)
    there.step();
  write_some(32, 36);
  there.settle();
  // A page that was erased or evicted and then written again must be found.
  for (const auto& [number, page] : there.durable())
    if (page.version != 0)
      gone.erase(number);
  write_some(36, 40);
  there.step();
  return state();
}

/// Expects that every durable page is found, in the durable version or one that was written later,
/// and that no byte is wrong.
void expect_found(const store_kind& kind, memory_disk_io& left, const life& before) {
  store_harness again(kind, left, three_buckets());
  again.know(before.tried);
  const auto report = again.recover({.threads = 1, .waiting_threads = 1});
  ASSERT_TRUE(report) << report.error().message;
  for (const auto& [number, page] : before.durable) {
    const auto* found = again.store().find(key_of(number));
    ASSERT_NE(found, nullptr) << "page " << number << " was durable and is lost";
    ASSERT_GE(found->gen.value, generation_of(page).value) << "page " << number;
  }
  for (const auto& [number, tried] : before.tried) {
    const bool found = again.store().find(key_of(number)) != nullptr;
    const auto read = again.read_and_settle(number);
    ASSERT_TRUE(read == disk_status::ok || (!found && read == disk_status::not_found) ||
                (read == disk_status::corrupt && !before.durable.contains(number)))
        << "page " << number << ": " << static_cast<int>(read);
  }
  ASSERT_EQ(again.wrong_pages(), 0u);
  // The recovered store takes and serves pages like any other.
  ASSERT_EQ(again.write_and_settle({.number = 900}), disk_status::ok);
  ASSERT_EQ(again.read_and_settle(900), disk_status::ok);
}

TEST_P(disk_store_power_cut, at_every_operation_loses_only_what_was_not_synced) {
  const auto seeds = static_cast<std::uint64_t>(thorough(3, 1));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    memory_disk_io whole({.seed = seed});
    live(GetParam(), whole);
    const auto operations = whole.operations();
    ASSERT_GT(operations, 60u);
    for (std::uint64_t cut = 0; cut <= operations; ++cut) {
      memory_disk_io io({.seed = seed});
      io.stop_at(cut);
      const auto before = live(GetParam(), io);
      for (std::uint64_t after = 0; after < 6; ++after) {
        SCOPED_TRACE("seed " + std::to_string(seed) + " cut at " + std::to_string(cut) + " of " +
                     std::to_string(operations) + " after " + std::to_string(after));
        const auto what = after == 0   ? survivors::none
                          : after == 1 ? survivors::all
                                       : survivors::some;
        auto left = io.after_power_cut(after, what);
        expect_found(GetParam(), *left, before);
        if (HasFatalFailure())
          return;
      }
    }
  }
}

TEST_P(disk_store_power_cut, in_a_recovery_loses_nothing_more) {
  memory_disk_io whole({.seed = 9});
  live(GetParam(), whole);
  for (std::uint64_t cut = 5; cut <= whole.operations(); cut += 3) {
    memory_disk_io io({.seed = 9});
    io.stop_at(cut);
    const auto before = live(GetParam(), io);
    for (std::uint64_t second = 0; second < 12; ++second) {
      SCOPED_TRACE("cut at " + std::to_string(cut) + ", then at " + std::to_string(second));
      auto left = io.after_power_cut(second);
      left->stop_at(second);
      {
        store_harness again(GetParam(), *left, three_buckets());
        (void)again.recover({.threads = 1, .waiting_threads = 1});
      }
      auto twice = left->after_power_cut(second + 1);
      expect_found(GetParam(), *twice, before);
      if (HasFatalFailure())
        return;
    }
  }
}

} // namespace
} // namespace peercache::storage
