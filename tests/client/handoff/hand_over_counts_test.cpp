#include "client/handoff/hand_over_counts.hpp"

#include "metrics/metric_table.hpp"

#include <gtest/gtest.h>

namespace peercache::client::test {
namespace {

using handoff::failure_kind;
using handoff::room_failure;
using metrics::metric;

TEST(hand_over_counts, have_a_word_in_the_metric_for_each_kind_of_failure) {
  for (std::size_t i = 0; i < handoff::failure_kind_count; ++i) {
    hand_over_counts counts;
    const auto kind = static_cast<failure_kind>(i);
    counts.failed({"why", kind}, 100);
    const auto now = counts.samples("decode", "decode-7", {}, 0);
    EXPECT_EQ(now.count(metric::handoff_failures_total, {"decode", to_string(kind)}), 1u);
    EXPECT_EQ(now.count(metric::handoff_rooms_total, {"decode", "failed"}), 1u);
  }
}

TEST(hand_over_counts, have_a_word_in_the_metric_for_each_state_of_a_room) {
  for (std::size_t i = 0; i < handoff::room_state_count; ++i) {
    const auto state = static_cast<handoff::room_state>(i);
    handoff::rooms_by_state rooms;
    rooms[state] = 3;
    const auto now = hand_over_counts().samples("prefill", "prefill-7", rooms, 0);
    for (std::size_t each = 0; each < handoff::room_state_count; ++each)
      EXPECT_EQ(now.count(metric::handoff_rooms,
                          {"prefill", to_string(static_cast<handoff::room_state>(each))}),
                each == i ? 3u : 0u);
  }
}

TEST(hand_over_counts, say_when_a_room_failed_last_for_each_reason) {
  hand_over_counts counts;
  counts.failed({"no memory", failure_kind::peer_aborted}, 100);
  counts.failed({"it died", failure_kind::peer_lost}, 101);
  counts.failed({"no memory", failure_kind::peer_aborted}, 102);
  counts.failed({"another rank", failure_kind::another_rank}, 103);
  const auto now = counts.samples("prefill", "prefill-7", {}, 2);
  EXPECT_EQ(now.count(metric::handoff_last_failure_seconds, {"prefill-7", "no memory"}), 102u);
  EXPECT_EQ(now.count(metric::handoff_last_failure_seconds, {"prefill-7", "it died"}), 101u);
  EXPECT_EQ(now.count(metric::handoff_last_failure_seconds, {"prefill-7", "another rank"}), 0u);
  EXPECT_EQ(now.count(metric::handoff_peers, {"prefill"}), 2u);
  EXPECT_EQ(counts.rooms_failed(), 4u);
}

TEST(hand_over_counts, keep_the_newest_reasons) {
  hand_over_counts counts;
  for (std::size_t i = 0; i < 2 * hand_over_counts::failures_kept; ++i)
    counts.failed({"reason " + std::to_string(i), failure_kind::misfit}, 100 + i);
  const auto now = counts.samples("decode", "decode-7", {}, 0);
  std::size_t kept = 0;
  for (const auto& [which, value] : now.values())
    kept += which.id == metric::handoff_last_failure_seconds ? 1 : 0;
  EXPECT_EQ(kept, hand_over_counts::failures_kept);
  EXPECT_EQ(now.count(metric::handoff_last_failure_seconds, {"decode-7", "reason 15"}), 115u);
  EXPECT_EQ(now.count(metric::handoff_last_failure_seconds, {"decode-7", "reason 7"}), 0u);
}

TEST(hand_over_counts, add_up_bytes_reads_and_times) {
  hand_over_counts counts;
  counts.opened();
  counts.succeeded(4096);
  counts.took(std::chrono::microseconds(250));
  counts.read(handoff::read_end::good);
  counts.read(handoff::read_end::refused);
  counts.read(handoff::read_end::failed);
  counts.read(handoff::read_end::failed);
  const auto now = counts.samples("decode", "decode-7", {}, 0);
  EXPECT_EQ(now.count(metric::handoff_rooms_total, {"decode", "succeeded"}), 1u);
  EXPECT_EQ(now.count(metric::handoff_bytes_total, {"decode"}), 4096u);
  EXPECT_EQ(now.count(metric::handoff_reads_total, {"good"}), 1u);
  EXPECT_EQ(now.count(metric::handoff_reads_total, {"refused"}), 1u);
  EXPECT_EQ(now.count(metric::handoff_reads_total, {"failed"}), 2u);
  EXPECT_EQ(now.latency(metric::handoff_seconds, {}).count, 1u);
}

} // namespace
} // namespace peercache::client::test
