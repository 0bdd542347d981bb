#include "actors/gateway/client_calls.hpp"

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
  calls.end(7, start + 1s); // This session has made no report.
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

TEST(client_calls, of_clients_without_key_spaces_push_no_engines_out) {
  client_calls calls;
  calls.take(1, "engine", report_of(1, "sglang"), start);
  calls.end(1, start);
  for (std::uint64_t i = 0; i < 2 * client_calls::ended_max; ++i) {
    call_report short_lived;
    short_lived.slow.resize(1);
    calls.take(100 + i, "peercache", std::move(short_lived), start);
    calls.end(100 + i, start);
  }
  const auto all = calls.all(start).clients;
  ASSERT_EQ(all.size(), client_calls::ended_max);
  EXPECT_EQ(all.front().client, "engine");
}

/// Returns a report whose size is about this share of the limit for one client.
call_report large_report(double share) {
  auto made = report_of(0);
  made.spaces[0].fields.emplace_back(
      static_cast<std::size_t>(share * client_calls::report_bytes_max), 'x');
  return made;
}

TEST(client_calls, refuse_more_than_a_limit_and_drop_ended_ones_first) {
  client_calls calls;
  for (std::uint64_t session = 1; session <= 4; ++session)
    EXPECT_TRUE(calls.take(session, "client", large_report(0.9), start));
  EXPECT_FALSE(calls.take(5, "client-5", large_report(0.5), start));
  EXPECT_TRUE(calls.take(4, "client", large_report(0.8), start)) << "in place of what it told";
  calls.end(1, start);
  EXPECT_TRUE(calls.take(5, "client-5", large_report(0.5), start));
  const auto all = calls.all(start).clients;
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back().client, "client-5");
}

TEST(client_calls, refuse_a_report_of_more_than_one_clients_share) {
  client_calls calls;
  EXPECT_FALSE(calls.take(1, "client", large_report(1), start));
  auto many = report_of(0);
  many.spaces.resize(client_calls::report_bytes_max / 64);
  EXPECT_FALSE(calls.take(1, "client", std::move(many), start)) << "empty spaces cost memory too";
  EXPECT_TRUE(calls.all(start).clients.empty());
}

} // namespace peercache::actors::client_calls_test
