// Tests of the encodings of routers' queries and of reports of blocks on GPUs: round trips, and
// malformed bytes.

#include "link/protocol/overlap_wire.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace peercache::link::overlap_wire_test {
namespace {

/// Expects that the decoder refuses these bytes when any number of them is missing at the end, or
/// one more follows.
template <class Decode>
void expect_whole(const std::string& bytes, Decode&& decode) {
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, length))) << length;
  EXPECT_FALSE(decode(bytes + '\0'));
}

TEST(overlap_wire, reports_and_questions_of_blocks_on_gpus_arrive_whole) {
  const auto report = encode(gpu_report{3, true, {1, 2}, {~0ull}});
  const auto read = decode_gpu_report(report);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rank, 3u);
  EXPECT_TRUE(read->anew);
  EXPECT_EQ(read->evicted, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(read->stored, (std::vector<std::uint64_t>{~0ull}));
  expect_whole(report, decode_gpu_report);

  const auto question = encode(gpu_question{2, {1, 2, 3, 4}});
  const auto asked = decode_gpu_question(question);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->spaces, 2u);
  EXPECT_EQ(asked->prefixes.size(), 4u);
  expect_whole(question, decode_gpu_question);
  EXPECT_FALSE(decode_gpu_question(encode(gpu_question{0, {}})));
  EXPECT_FALSE(decode_gpu_question(encode(gpu_question{2, {1}})));
  EXPECT_FALSE(decode_gpu_question(encode(gpu_question{0xFFFFFFFF, {}})));

  const auto answer = encode(gpu_run{true, 5, {{1, 5}, {2, 4}}});
  const auto run = decode_gpu_run(answer);
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->knows_any);
  EXPECT_EQ(run->blocks, 5u);
  EXPECT_EQ(run->ranks.at(2), 4u);
  expect_whole(answer, decode_gpu_run);
}

TEST(overlap_wire, more_keys_than_a_message_may_have_are_refused) {
  gpu_report report;
  report.stored.resize(gpu_report::keys_max + 1);
  EXPECT_FALSE(decode_gpu_report(encode(report)));
  gpu_question question;
  question.prefixes.resize(gpu_question::keys_max + 1);
  EXPECT_FALSE(decode_gpu_question(encode(question)));
}

TEST(overlap_wire, an_answer_tells_of_no_more_ranks_than_a_node_has_clients_that_tell) {
  gpu_run run;
  for (std::uint32_t rank = 0; rank < 64; ++rank)
    run.ranks[rank] = 1;
  EXPECT_TRUE(decode_gpu_run(encode(run)));
  run.ranks[64] = 1;
  EXPECT_FALSE(decode_gpu_run(encode(run)));
}

TEST(overlap_wire, queries_and_answers_arrive_whole) {
  overlap_query query;
  query.spaces = {{"m", "rank 0"}, {}};
  query.block_tokens = 16;
  query.by_tokens = true;
  query.hashes = {"a", ""};
  query.tokens = {7, 8};
  query.node = "n1";
  const auto bytes = encode(query);
  const auto read = decode_overlap_query(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->spaces, query.spaces);
  EXPECT_EQ(read->block_tokens, 16u);
  EXPECT_TRUE(read->by_tokens);
  EXPECT_EQ(read->hashes, query.hashes);
  EXPECT_EQ(read->tokens, query.tokens);
  EXPECT_EQ(read->node, "n1");
  expect_whole(bytes, decode_overlap_query);
  EXPECT_FALSE(decode_overlap_query(std::string(overlap_query_bytes_max + 1, '\0')));

  const auto answer = encode(std::vector<overlap_match>{{"n1", 4, 3, 2, 1, {{0, 3}}}});
  const auto matches = decode_overlap_matches(answer);
  ASSERT_TRUE(matches);
  ASSERT_EQ(matches->size(), 1u);
  EXPECT_EQ(matches->at(0).node, "n1");
  EXPECT_EQ(matches->at(0).longest, 4u);
  EXPECT_EQ(matches->at(0).gpu, 3u);
  EXPECT_EQ(matches->at(0).memory, 2u);
  EXPECT_EQ(matches->at(0).disk, 1u);
  EXPECT_EQ(matches->at(0).gpu_by_rank.at(0), 3u);
  expect_whole(answer, decode_overlap_matches);
}

} // namespace
} // namespace peercache::link::overlap_wire_test
