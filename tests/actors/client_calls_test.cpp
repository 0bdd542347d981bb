#include "actors/client_calls.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace peercache::actors::client_calls_test {
namespace {

using namespace std::chrono_literals;

const client_calls::time_point start{1'000'000s};

call_report report_of(std::size_t failed, const std::string& door = "door") {
  call_report made;
  auto& space = made.spaces.emplace_back();
  space.door = door;
  space.failed.resize(failed);
  return made;
}

} // namespace

TEST(client_calls, have_what_each_client_told_last) {
  client_calls calls;
  EXPECT_TRUE(calls.take(1, "client-1", report_of(1), start));
  EXPECT_TRUE(calls.take(1, "client-1", report_of(2, "newer"), start + 1s));
  EXPECT_TRUE(calls.take(2, "client-2", report_of(0), start + 2s));
  const auto all = calls.all(start + 3s).clients;
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].client, "client-1");
  EXPECT_EQ(all[0].spaces.at(0).door, "newer");
  EXPECT_EQ(all[0].age_ms, 2000u);
  EXPECT_FALSE(all[0].ended);
}

TEST(client_calls, keep_those_of_ended_clients_for_the_window) {
  client_calls calls;
  calls.take(1, "client-1", report_of(1), start);
  calls.end(1, start + 1s);
  calls.end(7, start + 1s); // A session that told nothing.
  ASSERT_EQ(calls.all(start + 4min).clients.size(), 1u);
  EXPECT_TRUE(calls.all(start + 4min).clients[0].ended);
  EXPECT_TRUE(calls.all(start + 6min).clients.empty());
}

TEST(client_calls, keep_no_more_ended_clients_than_a_limit) {
  client_calls calls;
  for (std::uint64_t i = 0; i < client_calls::ended_max + 5; ++i) {
    calls.take(i, "client", report_of(1, std::to_string(i)), start);
    calls.end(i, start);
  }
  const auto all = calls.all(start).clients;
  ASSERT_EQ(all.size(), client_calls::ended_max);
  EXPECT_EQ(all.front().spaces.at(0).door, "5");
}

TEST(client_calls, refuse_more_than_a_limit_and_drop_ended_ones_first) {
  client_calls calls;
  EXPECT_TRUE(calls.take(1, "client-1", report_of(client_calls::failed_max - 1), start));
  EXPECT_FALSE(calls.take(2, "client-2", report_of(2), start));
  EXPECT_TRUE(calls.take(1, "client-1", report_of(client_calls::failed_max), start));
  calls.end(1, start);
  EXPECT_TRUE(calls.take(2, "client-2", report_of(2), start));
  const auto all = calls.all(start).clients;
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].client, "client-2");
}

} // namespace peercache::actors::client_calls_test
