#include "cli/key_differences.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace peercache::cli::key_differences_test {
namespace {

using fields = std::vector<std::string>;

const fields sglang{"model",          "sglang-hicache-1",
                    "space=",         "model=model",
                    "heads=0/1",      "pp=0/1",
                    "pool=kv",        "form=parts",
                    "dtype=bfloat16", "layout=page_first",
                    "page_size=64",   "geometry=layer_num=3,head_num=4,size_per_token=384"};

fields with(std::size_t index, const std::string& value, fields from = sglang) {
  from.at(index) = value;
  return from;
}

std::vector<key_difference> differences(const fields& asked, const fields& stored) {
  return cli::differences(parts_of(asked), parts_of(stored));
}

} // namespace

TEST(key_differences, name_the_field_and_both_values) {
  const auto found = differences(with(10, "page_size=32"), sglang);
  EXPECT_EQ(found, (std::vector<key_difference>{{"page_size", "32", "64"}}));
  EXPECT_EQ(cause_of_difference(found[0]), "page_size");
  EXPECT_TRUE(changes_keys("page_size"));
  EXPECT_FALSE(changes_keys("dtype"));
  EXPECT_NE(fix_of_difference(found[0]).find("--page-size"), std::string::npos);
}

TEST(key_differences, are_none_between_equal_spaces_and_between_shares_of_one_engine) {
  EXPECT_TRUE(differences(sglang, sglang).empty());
  const auto of_two = with(4, "heads=0/2");
  EXPECT_TRUE(differences(of_two, with(4, "heads=1/2")).empty());
  EXPECT_TRUE(differences(with(6, "pool=indexer"), sglang).empty());
  EXPECT_TRUE(differences(with(7, "form=large"), sglang).empty());
  EXPECT_TRUE(differences(with(1, "vllm-offload-1"), sglang).empty());
}

TEST(key_differences, leave_out_what_follows_from_others) {
  auto reader = with(4, "heads=0/2");
  reader[11] = "geometry=layer_num=3,head_num=2,size_per_token=192";
  EXPECT_EQ(differences(reader, sglang), (std::vector<key_difference>{{"tp", "2", "1"}}));
  const auto tenant = with(2, "space=a", with(0, "a:model"));
  EXPECT_EQ(differences(tenant, sglang), (std::vector<key_difference>{{"space", "a", ""}}));
  const auto only_follower = with(11, "geometry=layer_num=3,head_num=4,size_per_token=1");
  EXPECT_EQ(differences(only_follower, sglang),
            (std::vector<key_difference>{{"size_per_token", "1", "384"}}));
}

TEST(key_differences, begin_with_the_one_that_matters_most) {
  const auto found = differences(with(8, "dtype=fp8", with(10, "page_size=1")), sglang);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].field, "page_size");
  EXPECT_EQ(found[1].field, "dtype");
}

TEST(key_differences, look_into_values_of_json) {
  const fields one{"m", "vllm", R"(model={"dtype": "auto", "name": "m"})", "hash_seed=1"};
  const fields other{"m", "vllm", R"(model={"dtype": "fp8", "name": "m"})", "hash_seed=1"};
  EXPECT_EQ(differences(one, other), (std::vector<key_difference>{{"model.dtype", "auto", "fp8"}}));
  const fields broken{"m", "vllm", "model={", "hash_seed=1"};
  EXPECT_FALSE(differences(broken, other).empty());
}

TEST(key_differences, take_json_of_any_depth) {
  const auto nested = [](std::size_t levels, const std::string& leaf) {
    return fields{"m", "vllm",
                  "model=" + std::string(levels, '[') + leaf + std::string(levels, ']')};
  };
  const auto levels = json_levels_max;
  EXPECT_EQ(parts_of(nested(levels, "7")).lower_bound("model")->second, "7");
  const auto whole = parts_of(nested(levels + 1, "7")).at("model");
  EXPECT_EQ(whole, std::string(levels + 1, '[') + "7" + std::string(levels + 1, ']'));
  EXPECT_EQ(differences(nested(1'000'000, "7"), nested(1'000'000, "8")).at(0).field, "model");
}

TEST(key_differences, have_a_limit_of_parts_and_of_bytes_in_json) {
  std::string wide = "geometry=";
  fields many{"m", "vllm"};
  for (std::size_t i = 0; i < 2 * key_parts_max; ++i) {
    wide += std::to_string(i) + "=1,";
    many.push_back("name" + std::to_string(i) + "=1");
  }
  EXPECT_EQ(parts_of({"m", "vllm", wide}).size(), key_parts_max);
  EXPECT_EQ(parts_of(many).size(), key_parts_max);
  const auto text = "[" + std::string(json_bytes_max, ' ') + "1]";
  EXPECT_EQ(parts_of({"m", "vllm", "model=" + text}).at("model"), text);
}

TEST(key_differences, name_the_namespace_where_nothing_else_is_said) {
  EXPECT_EQ(differences({"a", "lmcache-l2-1"}, {"b", "lmcache-l2-1"}),
            (std::vector<key_difference>{{"namespace", "a", "b"}}));
}

} // namespace peercache::cli::key_differences_test
