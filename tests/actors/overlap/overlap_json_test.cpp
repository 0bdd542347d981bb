// Tests of the JSON of a router's query and of its answer.

#include "actors/link_names.hpp"
#include "actors/overlap/overlap_json.hpp"
#include "discovery/view.hpp"
#include "tests/link/named_members.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::actors {
namespace overlap_json_test {

page_key key_in(const std::vector<std::string_view>& fields, const std::string& key) {
  return key_space{fields}.key_of(key);
}

TEST(overlap_query, names_blocks_by_hashes_in_each_key_space) {
  const auto asked = parse_overlap(
      R"({"model": "m", "seq_hashes": ["a", "b"], "more": {"x": [[1, null, 2.5]]}, "block_size": 64,
          "namespaces": [["m", "rank 0"], ["m", "rank 1"]], "tenant_id": "t", "instance_id": null})",
      true);
  ASSERT_TRUE(asked) << to_string(asked.error());
  EXPECT_EQ(asked->spaces, 2u);
  EXPECT_EQ(asked->blocks(), 2u);
  EXPECT_EQ(asked->block_tokens, 64u);
  EXPECT_EQ(asked->tenant, "t");
  EXPECT_EQ(asked->node, "");
  EXPECT_EQ(asked->keys, (std::vector{key_in({"m", "rank 0"}, "a"), key_in({"m", "rank 1"}, "a"),
                                      key_in({"m", "rank 0"}, "b"), key_in({"m", "rank 1"}, "b")}));
}

TEST(overlap_query, names_blocks_by_tokens_and_leaves_out_the_rest) {
  const auto asked = parse_overlap(
      R"({"token_ids": [1,2,3,4,5,6,7,8,9], "block_size": 4, "namespaces": [["m"]]})", false);
  ASSERT_TRUE(asked) << to_string(asked.error());
  ASSERT_EQ(asked->blocks(), 2u);
  EXPECT_EQ(asked->keys[1],
            key_in({"m"}, "4ebfa8a1f3c341517621838c6e1b9aa350307e3f00b3cbd1a07ef740f54396d6"));
  EXPECT_EQ(asked->tenant, "default");
}

std::string many(const char* each, std::size_t count) {
  std::string all = each;
  for (std::size_t i = 1; i < count; ++i)
    all += std::string{","} + each;
  return all;
}

TEST(overlap_query, is_refused_with_the_reason) {
  const auto with = [](const std::string& more) {
    return R"({"block_size": 4, "namespaces": [["m"]], "seq_hashes": ["a"])" + more + "}";
  };
  const std::vector<std::pair<std::string, std::string>> faults{
      {"", "not JSON"},
      {"[]", "not a JSON object"},
      {"3", "block_size"},
      {"{}", "block_size"},
      {R"({"block_size": 4})", "namespaces"},
      {R"({"block_size": 4, "namespaces": [["m"]]})", "seq_hashes"},
      {with(R"(, "block_size": 0)"), "block_size"},
      {with(R"(, "block_size": "4")"), "block_size"},
      {with(R"(, "block_size": 65537)"), "block_size"},
      {with(R"(, "seq_hashes": [1])"), "seq_hashes"},
      {with(R"(, "seq_hashes": [null])"), "null"},
      {with(R"(, "seq_hashes": [["a"]])"), "seq_hashes"},
      {with(R"(, "seq_hashes": {"a": 1})"), "seq_hashes"},
      {with(R"(, "token_ids": [4294967296])"), "32 bits"},
      {with(R"(, "token_ids": [-1])"), "token_ids"},
      {with(R"(, "namespaces": "m")"), "namespaces"},
      {with(R"(, "namespaces": ["m"])"), "namespaces"},
      {with(R"(, "namespaces": [[1]])"), "namespaces"},
      {with(R"(, "tenant_id": 3)"), "tenant_id"},
      {with(R"(, "x": )" + std::string(20, '[') + std::string(20, ']')), "list"},
      {with(R"(, "namespaces": [)" + many(R"(["m"])", overlap_spaces_max) + "]"), "key spaces"},
      {with(R"(, "namespaces": [[)" + many(R"("m")", overlap_fields_max + 1) + "]]"), "fields"},
      {with(R"(, "seq_hashes": [)" + many(R"("a")", overlap_question::keys_max) + "]"),
       "keys at most"},
  };
  for (const auto& [body, why] : faults) {
    const auto asked = parse_overlap(body, true);
    ASSERT_FALSE(asked) << body;
    EXPECT_NE(asked.error().message.find(why), std::string::npos)
        << body.substr(0, 100) << ": " << asked.error().message;
  }
}

TEST(overlap_query, answer_names_nodes_of_the_view_by_tokens) {
  discovery::view view;
  view.members = {member_named("n1", 1), member_named("n2", 2)};
  std::sort(view.members.begin(), view.members.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  overlap_question asked;
  asked.block_tokens = 16;
  asked.tenant = "t";
  const std::vector<node_overlap> found{{node_id_of("n1"), 3, 2, 1, 2, {{0, 2}, {3, 1}}},
                                        {node_id_of("gone"), 4, 4, 4},
                                        {node_id_of("n2"), 1, 1, 0}};
  EXPECT_EQ(nlohmann::json::parse(overlap_json(asked, found, view)),
            nlohmann::json::parse(R"({"t": {
              "n1": {"longest_matched": 48, "GPU": 32, "DP": {"0": 32, "3": 16}, "CPU": 32, "DISK": 16},
              "n2": {"longest_matched": 16, "GPU": 0, "DP": {}, "CPU": 16, "DISK": 0}}})"));
  asked.node = "n2";
  EXPECT_EQ(nlohmann::json::parse(overlap_json(asked, found, view))["t"].size(), 1u);
}

} // namespace overlap_json_test
} // namespace peercache::actors
