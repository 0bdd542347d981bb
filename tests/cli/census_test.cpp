#include "cli/census.hpp"

#include "cli/key_spaces.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::census_test {
namespace {

std::string packed(const page_key& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

link::counted_page page_of(const std::string& digest, std::uint64_t bytes, std::uint64_t reads) {
  link::counted_page page;
  page.digest = digest;
  page.bytes = bytes;
  page.reads = reads;
  page.reads_over = 1;
  return page;
}

link::counted_space space_of(std::uint64_t id, std::uint64_t pages, std::uint64_t bytes) {
  link::counted_space space;
  space.space = id;
  space.pages = pages;
  space.bytes = bytes;
  return space;
}

TEST(census, adds_up_what_nodes_say_of_the_same_page_and_space) {
  link::page_census first, second;
  first.hot = {page_of("x", 10, 5), page_of("y", 10, 4)};
  first.big = {page_of("x", 10, 0)};
  first.spaces = {space_of(1, 2, 20), space_of(2, 1, 50)};
  first.window_ms = 1000;
  first.age_ms = 7;
  second.hot = {page_of("y", 10, 3)};
  second.big = {page_of("z", 99, 0)};
  second.spaces = {space_of(1, 4, 40)};
  second.window_ms = 500;
  second.age_ms = 9;
  census_sum sum;
  sum.add("node-1", first);
  sum.add("node-2", second);
  const auto hot = sum.hottest(10);
  ASSERT_EQ(hot.size(), 2u);
  EXPECT_EQ(hot[0].digest, "y");
  EXPECT_EQ(hot[0].reads, 7u);
  EXPECT_EQ(hot[0].reads_over, 2u);
  EXPECT_EQ(hot[0].nodes, (std::vector<std::string>{"node-1", "node-2"}));
  EXPECT_EQ(sum.largest(1).at(0).node, "node-2");
  const auto spaces = sum.spaces(10);
  ASSERT_EQ(spaces.size(), 2u);
  EXPECT_EQ(spaces[0].space, 1u);
  EXPECT_EQ(spaces[0].bytes, 60u);
  EXPECT_EQ(spaces[0].pages, 6u);
  EXPECT_EQ(sum.spaces(1).size(), 1u);
  EXPECT_EQ(sum.window_ms(), 1000u);
  EXPECT_EQ(sum.age_ms(), 9u);
}

TEST(key_spaces, have_the_names_that_doors_tell) {
  const std::string_view fields[] = {"llama"};
  const auto key = key_space{fields}.key_of("page");
  link::calls_report told;
  auto& space = told.clients.emplace_back().spaces.emplace_back();
  space.space = space_in(packed(key)).value;
  space.door = "vllm";
  space.fields = {"llama\n", "bf16"};
  space_names names;
  names.add(told);
  EXPECT_EQ(names.name_of(space_named("llama").value), "vllm llama?");
  EXPECT_EQ(names.name_of(0xabc), "space 0000000000000abc");
  EXPECT_EQ(digest_text(packed(key)), to_string(key));
  EXPECT_EQ(digest_text("short"), "");
  EXPECT_EQ(space_in("short"), space_id{});
}

} // namespace
} // namespace peercache::cli::census_test
