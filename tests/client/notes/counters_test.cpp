#include "client/notes/counters.hpp"
#include "client/read/peer_load.hpp"

#include <gtest/gtest.h>

#include <array>

namespace peercache::client {
namespace {

constexpr std::size_t of(page_status status) {
  return static_cast<std::size_t>(status);
}
constexpr std::size_t of(page_origin origin) {
  return static_cast<std::size_t>(origin);
}

constexpr std::array results{
    page_result{page_status::hit, page_origin::own_host, 100},
    page_result{page_status::hit, page_origin::own_host, 50},
    page_result{page_status::hit, page_origin::disk, 7},
    page_result{page_status::not_found, page_origin::none, 1000},
    page_result{page_status::timed_out, page_origin::none, 1000},
};

TEST(counters, count_the_pages_of_a_get_by_what_became_of_them) {
  counters totals;
  totals.count_get(results);
  totals.count_get(results);
  const auto now = totals.stats();
  EXPECT_EQ(now.get_pages[of(page_status::hit)], 6u);
  EXPECT_EQ(now.get_pages[of(page_status::not_found)], 2u);
  EXPECT_EQ(now.get_pages[of(page_status::stale)], 0u);
}

TEST(counters, count_the_bytes_of_hits_only_and_by_where_they_came_from) {
  counters totals;
  totals.count_get(results);
  const auto now = totals.stats();
  EXPECT_EQ(now.get_hits[of(page_origin::own_host)], 2u);
  EXPECT_EQ(now.get_bytes[of(page_origin::own_host)], 150u);
  EXPECT_EQ(now.get_hits[of(page_origin::disk)], 1u);
  EXPECT_EQ(now.get_bytes[of(page_origin::disk)], 7u);
  EXPECT_EQ(now.get_bytes[of(page_origin::none)], 0u);
}

TEST(counters, keep_calls_of_one_kind_apart_from_others) {
  counters totals;
  counters::count_statuses(results, totals.exists_status);
  const auto now = totals.stats();
  EXPECT_EQ(now.exists_pages[of(page_status::hit)], 3u);
  EXPECT_EQ(now.get_pages[of(page_status::hit)], 0u);
  EXPECT_EQ(now.set_pages[of(page_status::hit)], 0u);
}

TEST(counters, tell_the_node_what_calls_did_by_the_names_of_metrics) {
  using metrics::metric;
  counters totals;
  totals.count_get(results);
  totals.get_latency.record_ns(5000);
  totals.set_bytes = 5;
  totals.view_refreshes = 2;
  totals.datagrams_sent = 4;
  totals.datagrams_over_tcp = 3;
  totals.datagrams_dropped = 1;
  const auto told = totals.samples();
  EXPECT_EQ(told.count(metric::requests_total, {"get"}), 1u);
  EXPECT_EQ(told.latency(metric::op_seconds, {"get"}).count, 1u);
  EXPECT_EQ(told.count(metric::requests_total, {"set"}), 0u);
  EXPECT_EQ(told.count(metric::pages_total, {"get", "hit"}), 3u);
  EXPECT_EQ(told.count(metric::pages_total, {"get", "timed_out"}), 1u);
  EXPECT_EQ(told.count(metric::pages_total, {"exists", "hit"}), 0u);
  EXPECT_EQ(told.count(metric::hits_total, {"own_host"}), 2u);
  EXPECT_EQ(told.count(metric::hits_total, {"disk"}), 1u);
  EXPECT_EQ(told.count(metric::misses_total, {"not_found"}), 1u);
  EXPECT_EQ(told.count(metric::bytes_total, {"get", "own_host"}), 150u);
  EXPECT_EQ(told.count(metric::bytes_total, {"set", "own_host"}), 5u);
  EXPECT_EQ(told.count(metric::view_refreshes_total), 2u);
  EXPECT_EQ(told.count(metric::lookup_datagrams_total, {"sent"}), 4u);
  EXPECT_EQ(told.count(metric::lookup_datagrams_total, {"over_tcp"}), 3u);
  EXPECT_EQ(told.count(metric::lookup_datagrams_total, {"dropped"}), 1u);
}

TEST(peer_load, is_what_was_begun_and_has_not_ended) {
  const incarnation one{1, 1};
  const incarnation other{1, 2};
  peer_load load;
  load.begin(one, 100);
  load.begin(one, 50);
  load.begin(other, 7);
  EXPECT_EQ(load.outstanding(one), 150u);
  load.end(one, 100);
  EXPECT_EQ(load.outstanding(one), 50u);
  EXPECT_EQ(load.outstanding(other), 7u);
  load.end(one, 50);
  EXPECT_EQ(load.outstanding(one), 0u);
}

} // namespace
} // namespace peercache::client
