// How many blocks of routers' queries one core answers in a second. Sanitizers and unoptimized
// builds change it, so this test runs in the build that users have. Times are of the thread, not of
// the clock: what else the machine does is left out.

#include "actors/overlap_json.hpp"
#include "actors/overlap_search.hpp"
#include "directory/shard_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::actors {
namespace overlap_cost {

constexpr std::size_t records = 1'000'000;
constexpr std::size_t query_blocks = 4096;
constexpr std::size_t rounds = 100;
constexpr double blocks_per_second_min = 1e6;

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// A page hash as an engine names it: 64 hex digits.
std::string hash_of(std::size_t index) {
  std::array<char, 65> text{};
  std::snprintf(text.data(), text.size(), "%064zx", index * 0x9e3779b97f4a7c15u);
  return text.data();
}

class overlap_cost_test : public ::testing::Test {
protected:
  void SetUp() override {
    member.name = "node";
    member.id = node_id_of("node");
    member.inc = {1, 1};
    ring = discovery::hash_ring{std::array{member}};
    view.members = {member};
    shard.set_members(std::array{member.inc});
    const std::array<std::string_view, 1> fields{"model"};
    const key_space space{fields};
    directory::page_location where;
    where.node = member.id;
    where.holder = member.inc;
    where.gen = {2};
    where.length_bytes = 65536;
    for (std::size_t i = 0; i < records; ++i)
      shard.publish(space.key_of(hash_of(i)), where, directory::publish_mode::always);
    for (std::size_t round = 0; round < rounds; ++round)
      bodies.push_back(body_of(round * query_blocks));
  }

  static std::string body_of(std::size_t first) {
    std::string text = R"({"block_size": 64, "namespaces": [["model"]], "seq_hashes": [)";
    for (std::size_t i = 0; i < query_blocks; ++i)
      text += (i == 0 ? "\"" : ",\"") + hash_of(first + i) + "\"";
    return text + "]}";
  }

  /// What a node does with a question whose keys are all its own shard's.
  std::string answer(overlap_question question) {
    overlap_search search(std::move(question), member.id);
    for (const auto& share : search.next(ring, 2, [](node_id) { return true; })) {
      const auto found = directory::lookup_batch(shard, share.request);
      search.answered(share, *found,
                      [this](const incarnation& holder) { return holder == member.inc; });
    }
    return overlap_json(search.question(), search.overlaps(), view);
  }

  discovery::member member;
  discovery::hash_ring ring;
  discovery::view view;
  directory::shard shard;
  std::vector<std::string> bodies;
};

TEST_F(overlap_cost_test, a_million_blocks_a_second_are_answered_on_one_core) {
  std::vector<overlap_question> questions;
  auto begin = thread_seconds();
  for (const auto& body : bodies)
    questions.push_back(*parse_overlap(body, true));
  const auto reading = thread_seconds() - begin;
  begin = thread_seconds();
  for (auto& question : questions)
    ASSERT_NE(answer(std::move(question)).find("\"longest_matched\":262144"), std::string::npos);
  const auto answering = thread_seconds() - begin;
  const auto blocks = static_cast<double>(rounds * query_blocks);
  std::printf("[ measured ] blocks a second on one core: %.2f million from JSON to JSON, %.2f "
              "million from keys to the answer, of %zu records\n",
              blocks / (reading + answering) / 1e6, blocks / answering / 1e6, records);
  EXPECT_GE(blocks / (reading + answering), blocks_per_second_min);
}

} // namespace overlap_cost
} // namespace peercache::actors
