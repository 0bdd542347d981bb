#include "handoff/transfer_reads.hpp"

#include <gtest/gtest.h>

namespace peercache::handoff::transfer_reads_test {
namespace {

transfer_reads::options small() {
  transfer_reads::options options;
  options.wire_bytes_max = 100;
  options.read_bytes_max = 40;
  options.read_pieces_max = 3;
  options.piece_bytes_max = 16;
  return options;
}

transfer_reads::job job_of(std::vector<transfer_piece> pieces) {
  return {{1}, {{2}, {4}, {}}, {}, std::move(pieces)};
}

TEST(transfer_reads, cut_pieces_and_bring_each_byte_once) {
  transfer_reads reads(small());
  const auto id = reads.start(job_of({{1000, 5000, 40}, {2000, 6000, 10}, {3000, 7000, 1}}));
  std::uint64_t bytes = 0;
  std::vector<read_id> under_way;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> moved;
  while (const auto order = reads.next_read()) {
    EXPECT_EQ(order->turn, id);
    EXPECT_LE(order->pieces.size(), 3u);
    under_way.push_back(order->id);
    bytes += order->bytes;
    for (const auto& piece : order->pieces) {
      const auto& part = order->parts.at(piece.first_part);
      EXPECT_EQ(part.bytes, piece.bytes);
      EXPECT_LE(piece.bytes, 16u);
      moved.emplace_back(piece.source.address, reinterpret_cast<std::uintptr_t>(part.data));
    }
  }
  EXPECT_EQ(bytes, 51u);
  EXPECT_EQ(moved, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                       {1000, 5000}, {1016, 5016}, {1032, 5032}, {2000, 6000}, {3000, 7000}}));
  EXPECT_EQ(reads.wire_bytes(), 51u);
  for (const auto each : under_way) {
    EXPECT_TRUE(reads.take_finished().empty());
    reads.finish_read(each, true, "");
  }
  const auto finished = reads.take_finished();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(finished[0].good);
  EXPECT_EQ(reads.wire_bytes(), 0u);
  EXPECT_EQ(reads.jobs(), 0u);
}

TEST(transfer_reads, of_several_jobs_take_turns_within_the_limit) {
  transfer_reads reads(small());
  const auto one = reads.start(job_of({{1000, 5000, 400}}));
  const auto two = reads.start(job_of({{2000, 6000, 400}}));
  std::vector<join_id> turns;
  while (const auto order = reads.next_read())
    turns.push_back(order->turn);
  EXPECT_EQ(turns, (std::vector{one, two, one}));
}

TEST(transfer_reads, that_are_not_good_end_their_job_when_nothing_writes_any_longer) {
  transfer_reads reads(small());
  const auto id = reads.start(job_of({{1000, 5000, 400}}));
  const auto first = reads.next_read(), second = reads.next_read();
  reads.finish_read(first->id, false, "stale");
  EXPECT_EQ(reads.take_cancels(), std::vector{id});
  EXPECT_FALSE(reads.next_read());
  EXPECT_TRUE(reads.take_finished().empty());
  EXPECT_TRUE(reads.writes_to({5399, 1}));
  EXPECT_FALSE(reads.writes_to({5400, 1}));
  reads.finish_read(second->id, true, "");
  const auto finished = reads.take_finished();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_FALSE(finished[0].good);
  EXPECT_EQ(finished[0].reason, "stale");
  EXPECT_FALSE(reads.writes_to({5000, 400}));
}

TEST(transfer_reads, that_were_not_ordered_are_cancelled_at_once) {
  transfer_reads reads(small());
  const auto id = reads.start(job_of({{1000, 5000, 400}}));
  reads.cancel(id, "given up");
  reads.cancel(id, "again");
  EXPECT_TRUE(reads.take_cancels().empty());
  const auto finished = reads.take_finished();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].reason, "given up");
  EXPECT_FALSE(reads.next_read());
}

TEST(transfer_reads, of_nothing_are_good) {
  transfer_reads reads(small());
  reads.start(job_of({}));
  EXPECT_FALSE(reads.next_read());
  const auto finished = reads.take_finished();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(finished[0].good);
}

} // namespace
} // namespace peercache::handoff::transfer_reads_test
