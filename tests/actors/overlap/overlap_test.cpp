// Tests, without actors, of the answer to a router's query for a prompt: how many pages each node
// has, and which owners are asked.

#include "actors/link_names.hpp"
#include "actors/overlap/overlap_search.hpp"
#include "directory/wire.hpp"
#include "tests/link/named_members.hpp"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace peercache::actors {
namespace overlap_test {

constexpr node_id one{1}, two{2};
constexpr auto memory = page_holders::in_memory;
constexpr auto disk = page_holders::on_disk;

page_holders held(std::initializer_list<page_holders::holder> by) {
  page_holders all;
  for (const auto& each : by)
    all.add(each.node, each.tiers);
  return all;
}

std::map<node_id, node_overlap> by_node(const std::vector<page_holders>& pages,
                                        std::uint32_t spaces = 1) {
  std::map<node_id, node_overlap> all;
  for (const auto& each : overlaps_of(pages, spaces))
    EXPECT_TRUE(all.emplace(each.node, each).second) << "a node is named twice";
  return all;
}

TEST(overlap, a_run_ends_at_the_first_block_that_a_node_lacks) {
  const auto found = by_node({held({{one, memory}, {two, memory}}), held({{one, memory}}),
                              held({{one, memory}, {two, memory}}), held({{two, memory}})});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(one).longest, 3u);
  EXPECT_EQ(found.at(one).memory, 3u);
  EXPECT_EQ(found.at(one).disk, 0u);
  EXPECT_EQ(found.at(two).longest, 1u);
}

TEST(overlap, each_tier_has_a_run_of_its_own_and_the_longest_is_of_both) {
  const auto found =
      by_node({held({{one, memory | disk}}), held({{one, disk}}), held({{one, memory}}), held({})});
  EXPECT_EQ(found.at(one).memory, 1u);
  EXPECT_EQ(found.at(one).disk, 2u);
  EXPECT_EQ(found.at(one).longest, 3u);
}

TEST(overlap, a_block_counts_where_the_pages_of_all_ranks_are) {
  const auto found = by_node({held({{one, memory}, {two, memory}}), held({{one, disk}}),
                              held({{one, memory}}), held({{one, memory}})},
                             2);
  ASSERT_EQ(found.size(), 1u) << "of the second node's first block one page is missing";
  EXPECT_EQ(found.at(one).longest, 2u);
  EXPECT_EQ(found.at(one).memory, 0u);
}

TEST(overlap, nobody_has_a_prompt_without_its_first_block) {
  EXPECT_TRUE(by_node({held({}), held({{one, memory}})}).empty());
  EXPECT_TRUE(by_node({}).empty());
}

TEST(overlap, blocks_on_a_gpu_count_where_a_node_lacks_them_otherwise) {
  const std::vector<page_holders> pages{held({{one, memory}}), held({}), held({{one, disk}}),
                                        held({})};
  std::vector<gpu_overlap> gpu{{one, {true, 2, {{1, 2}}}}, {two, {true, 1, {}}}};
  const auto found = overlaps_of(pages, 1, gpu);
  ASSERT_EQ(found.size(), 2u);
  const auto& has_all = found[0].node == one ? found[0] : found[1];
  const auto& has_gpu = found[0].node == one ? found[1] : found[0];
  EXPECT_EQ(has_all.longest, 3u);
  EXPECT_EQ(has_all.memory, 1u);
  EXPECT_EQ(has_all.gpu, 2u);
  EXPECT_EQ(has_all.gpu_ranks.at(1), 2u);
  EXPECT_EQ(has_gpu.node, two);
  EXPECT_EQ(has_gpu.longest, 1u);
  EXPECT_EQ(has_gpu.memory, 0u);
  EXPECT_EQ(has_gpu.gpu, 1u);
}

TEST(overlap, a_query_in_its_binary_form_has_the_keys_of_the_one_in_json) {
  overlap_query query;
  query.spaces = {{"m", "rank 0"}, {"m", "rank 1"}};
  query.block_tokens = 4;
  query.hashes = {"a", "b"};
  query.node = "n1";
  const auto asked = question_of(query);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->spaces, 2u);
  EXPECT_EQ(asked->node, "n1");
  const std::vector<std::string_view> fields{"m", "rank 1"};
  ASSERT_EQ(asked->keys.size(), 4u);
  EXPECT_EQ(asked->keys[3], key_space{fields}.key_of("b"));
  query.by_tokens = true;
  query.tokens = {1, 2, 3, 4, 5};
  ASSERT_TRUE(question_of(query));
  EXPECT_EQ(question_of(query)->keys.at(1),
            key_space{fields}.key_of(sglang_page_hashes(query.tokens, 4).at(0)));
  query.block_tokens = 0;
  EXPECT_FALSE(question_of(query));
  query.block_tokens = 4;
  query.spaces = {};
  EXPECT_FALSE(question_of(query));
  query.spaces = {std::vector<std::string>(overlap_fields_max + 1)};
  EXPECT_FALSE(question_of(query));
}

/// The expected digests were computed in Python: hashlib.sha256 of the previous page's digest and
/// of four bytes for each token.
TEST(overlap, pages_are_hashed_as_sglang_does) {
  const std::vector<std::uint32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(sglang_page_hashes(tokens, 4),
            (std::vector<std::string>{
                "cf97adeedb59e05bfd73a2b4c2a8885708c4f4f70c84c64b27120e72ab733b72",
                "4ebfa8a1f3c341517621838c6e1b9aa350307e3f00b3cbd1a07ef740f54396d6"}));
  EXPECT_TRUE(sglang_page_hashes(tokens, 16).empty());
}

class overlap_search_test : public ::testing::Test {
protected:
  std::vector<discovery::member> members{member_named("a", 1), member_named("b", 2),
                                         member_named("c", 3)};
  discovery::hash_ring ring{members};
  std::set<node_id> linked{members[0].id, members[1].id, members[2].id};

  static overlap_question question(std::size_t keys) {
    overlap_question asked;
    for (std::size_t i = 0; i < keys; ++i)
      asked.keys.push_back(key_space{}.key_of(std::to_string(i)));
    return asked;
  }
  auto next(overlap_search& search) {
    return search.next(ring, 2, [this](node_id id) { return linked.contains(id); });
  }
  std::string answer_of(const overlap_search::share& share, const discovery::member& holder) {
    std::string answer;
    for (std::size_t i = 0; i < share.indices.size(); ++i) {
      directory::page_location location;
      location.node = holder.id;
      location.holder = holder.inc;
      location.gen = {2};
      location.length_bytes = 4096;
      directory::append_answer(answer, std::array{location});
    }
    return answer;
  }
  static bool everybody(const directory::page_location&) { return true; }
};

TEST_F(overlap_search_test, asks_the_own_shard_where_it_owns_the_key_and_each_key_once) {
  overlap_search search(question(1000), members[0].id);
  std::set<std::uint32_t> asked;
  for (const auto& share : next(search)) {
    EXPECT_EQ(share.request.size(), share.indices.size() * sizeof(page_key));
    for (const auto index : share.indices) {
      EXPECT_TRUE(asked.insert(index).second);
      EXPECT_EQ(share.owner == members[0].id,
                ring.owns(members[0].id, search.question().keys[index], 2));
    }
  }
  EXPECT_EQ(asked.size(), 1000u);
  EXPECT_TRUE(next(search).empty());
}

TEST_F(overlap_search_test, another_owner_is_asked_where_one_fails_and_nobody_after_two) {
  overlap_search search(question(100), members[0].id);
  const auto first = next(search);
  for (const auto& share : first)
    search.failed(share);
  std::map<std::uint32_t, node_id> owner;
  for (const auto& share : first)
    for (const auto index : share.indices)
      owner[index] = share.owner;
  std::size_t asked = 0;
  for (const auto& share : next(search)) {
    for (const auto index : share.indices)
      EXPECT_NE(share.owner, owner.at(index));
    asked += share.indices.size();
    search.failed(share);
  }
  EXPECT_EQ(asked, 100u);
  EXPECT_TRUE(next(search).empty());
}

TEST_F(overlap_search_test, another_owner_is_asked_where_one_finds_nothing) {
  overlap_search search(question(10), members[0].id);
  for (const auto& share : next(search))
    search.answered(share, std::string(share.indices.size(), '\0'), everybody);
  std::size_t asked = 0;
  for (const auto& share : next(search)) {
    asked += share.indices.size();
    search.answered(share, answer_of(share, members[1]), everybody);
  }
  EXPECT_EQ(asked, 10u);
  EXPECT_EQ(search.overlaps().at(0).longest, 10u);
  EXPECT_TRUE(next(search).empty());
}

TEST_F(overlap_search_test, an_owner_without_a_connection_is_left_out) {
  linked.erase(members[1].id);
  overlap_search search(question(100), members[0].id);
  for (const auto& share : next(search))
    EXPECT_NE(share.owner, members[1].id);
}

TEST_F(overlap_search_test, a_message_has_no_more_keys_than_it_may) {
  overlap_search search(question(3 * limits::batch_pages_max), members[0].id);
  std::size_t asked = 0;
  for (const auto& share : next(search)) {
    EXPECT_LE(share.indices.size(), limits::batch_pages_max);
    asked += share.indices.size();
  }
  EXPECT_EQ(asked, 3 * limits::batch_pages_max);
}

TEST_F(overlap_search_test, answers_count_for_processes_of_the_view_only) {
  overlap_search search(question(10), members[0].id);
  for (const auto& share : next(search))
    search.answered(share, answer_of(share, members[2]), everybody);
  ASSERT_EQ(search.overlaps().size(), 1u);
  EXPECT_EQ(search.overlaps()[0].node, members[2].id);
  EXPECT_EQ(search.overlaps()[0].memory, 10u);
  overlap_search other(question(10), members[0].id);
  for (const auto& share : next(other))
    other.answered(share, answer_of(share, members[2]), [](const auto&) { return false; });
  EXPECT_TRUE(other.overlaps().empty());
}

TEST_F(overlap_search_test, takes_what_nodes_hold_on_gpus_the_newer_word_for_the_older) {
  overlap_search search(question(10), members[0].id);
  search.on_gpu(members[1].id, {true, 1, {{0, 1}}});
  search.on_gpu(members[1].id, {true, 1000, {{0, 7}, {1, 1000}}});
  ASSERT_EQ(search.overlaps().size(), 1u);
  EXPECT_EQ(search.overlaps()[0].longest, 10u) << "an answer has no more blocks than the question";
  EXPECT_EQ(search.overlaps()[0].gpu_ranks, (std::map<std::uint32_t, std::uint32_t>{{0, 7}}));
}

TEST_F(overlap_search_test, keys_that_an_answer_leaves_out_are_asked_of_the_next_owner) {
  overlap_search search(question(50), members[0].id);
  std::size_t open = 0;
  for (const auto& share : next(search)) {
    std::string answer = answer_of(share, members[1]);
    search.answered(share, std::string_view(answer).substr(0, answer.size() - 1), everybody);
    open += 1;
  }
  std::size_t asked = 0;
  for (const auto& share : next(search))
    asked += share.indices.size();
  EXPECT_EQ(asked, open);
}

} // namespace overlap_test
} // namespace peercache::actors
