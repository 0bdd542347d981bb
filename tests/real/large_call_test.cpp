#include "late_watch.hpp"
#include "survival_ring.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace peercache::real::large_call_test {

namespace {

constexpr std::uint32_t keys_count = 1'000'000;
constexpr milliseconds grace(50);

/// Calls of a million keys, most of which no node has, so that the time goes into the work itself.
class large_call : public survival_ring {
protected:
  void SetUp() override {
    start_ring({.count = 3});
    if (HasFatalFailure())
      return;
    for (std::uint32_t id = 0; id < keys_count; ++id)
      keys.push_back(key_of(id));
    results.resize(keys.size());
  }

  std::uint32_t count(page_status wanted) const {
    return static_cast<std::uint32_t>(std::count_if(
        results.begin(), results.end(), [&](const auto& each) { return each.status == wanted; }));
  }

  /// Makes the call three times. Each must return at most `grace` after its deadline, not counting
  /// time in which the machine stood still.
  template <class Call>
  void expect_in_time(const std::string& name, milliseconds patience, Call&& call) {
    for (int round = 0; round < 3; ++round) {
      const late_watch watch(stalls);
      const auto until = watch.begin() + patience;
      call(until);
      EXPECT_LE(watch.behind_ms(until, grace), grace.count())
          << name << " of a million keys in " << patience.count() << " ms";
    }
  }

  /// Makes the call three times with each of `patiences`, all too short for a million keys. Expects
  /// that each call returns in time, and that the last one of each patience has `timed_out` for at
  /// least a quarter of the keys and `unreachable` for none.
  template <class Call>
  void expect_in_time(const char* name, Call&& call) {
    for (const auto patience : patiences) {
      expect_in_time(name, patience, call);
      EXPECT_GE(count(page_status::timed_out), keys_count / 4) << name;
      EXPECT_EQ(count(page_status::unreachable), 0u) << name << ": nobody asked, or all answered";
    }
  }

  static constexpr std::array patiences{milliseconds(0), milliseconds(20), milliseconds(100)};
  stress::stall_watch stalls;
  std::vector<page_key> keys;
  std::vector<client::page_result> results;
};

} // namespace

TEST_F(large_call, of_a_million_keys_ends_in_time) {
  auto client = client_of(0);
  ASSERT_NE(client, nullptr);
  expect_in_time("exists", [&](auto until) { client->exists(keys, results, until); });
  expect_in_time("remove", [&](auto until) { client->remove(keys, results, until); });
  expect_in_time("remove everywhere", [&](auto until) {
    client->remove(keys, results, until, client::remove_scope::every_node);
  });
}

TEST_F(large_call, of_a_million_pages_ends_in_time) {
  auto client = client_of(0);
  ASSERT_NE(client, nullptr);
  std::vector<std::byte> memory(4096);
  const client::const_part from{memory.data(), 4096};
  const page_part to{memory.data(), 4096};
  std::vector<client::set_page> sets;
  std::vector<client::get_page> gets;
  for (const auto& key : keys) {
    sets.push_back({key, {&from, 1}});
    gets.push_back({key, {&to, 1}});
  }
  expect_in_time("get", [&](auto until) { client->get(gets, results, until); });
  // The pool holds only 4,096 of the million pages, so most sets find no room or no time.
  expect_in_time("set", [&](auto until) { client->set(sets, results, until); });
}

TEST_F(large_call, to_locate_a_million_keys_ends_in_time) {
  auto client = client_of(0);
  ASSERT_NE(client, nullptr);
  for (const auto patience : patiences)
    expect_in_time("locate", patience,
                   [&](auto until) { EXPECT_FALSE(client->locate(keys, until)); });
}

} // namespace peercache::real::large_call_test
