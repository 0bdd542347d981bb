#include "discovery/view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace peercache::discovery {
namespace {

member member_named(const std::string& name, std::uint64_t inc = 1) {
  return {.name = name,
          .id = node_id_of(name),
          .inc = {inc, inc},
          .host = "127.0.0.1",
          .control_port = 31998};
}

view view_of(std::vector<std::string> names) {
  view v{.term = 1, .version = 1, .issuer = {1, 1}};
  std::uint64_t inc = 1;
  for (const auto& name : names)
    v.members.push_back(member_named(name, inc++));
  std::sort(v.members.begin(), v.members.end(),
            [](const member& a, const member& b) { return a.id < b.id; });
  v.masters = {names.front()};
  return v;
}

TEST(natural_less, numbers_compare_as_numbers) {
  EXPECT_TRUE(natural_less("host2", "host10"));
  EXPECT_FALSE(natural_less("host10", "host2"));
  EXPECT_TRUE(natural_less("rack1-host9", "rack1-host10"));
  EXPECT_TRUE(natural_less("rack2-host9", "rack10-host1"));
  EXPECT_TRUE(natural_less("host", "host1"));
  EXPECT_TRUE(natural_less("a", "b"));
}

TEST(natural_less, numbers_of_any_length_do_not_overflow) {
  EXPECT_TRUE(natural_less("n99999999999999999999998", "n99999999999999999999999"));
  EXPECT_TRUE(natural_less("n99999999999999999999999", "n100000000000000000000000"));
}

TEST(natural_less, leading_zeros_still_give_an_order) {
  EXPECT_NE(natural_less("node01", "node1"), natural_less("node1", "node01"));
  EXPECT_TRUE(natural_less("node01", "node2"));
  EXPECT_TRUE(natural_less("node1", "node02"));
}

TEST(natural_less, is_a_strict_order_of_random_names) {
  std::mt19937_64 random(7);
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (auto n = random() % 5; n-- > 0;)
      name += "a0129"[random() % 5];
    names.push_back(name);
  }
  for (const auto& a : names)
    for (const auto& b : names) {
      EXPECT_EQ(natural_less(a, b) + natural_less(b, a), a == b ? 0 : 1) << a << " " << b;
      for (const auto& c : names) {
        if (natural_less(a, b) && natural_less(b, c)) {
          EXPECT_TRUE(natural_less(a, c)) << a << " " << b << " " << c;
        }
      }
    }
}

TEST(view, members_are_found_by_id_incarnation_and_name) {
  auto v = view_of({"a", "b", "c"});
  ASSERT_NE(v.find(node_id_of("b")), nullptr);
  EXPECT_EQ(v.find(node_id_of("b"))->name, "b");
  ASSERT_NE(v.find(incarnation{3, 3}), nullptr);
  EXPECT_EQ(v.find(incarnation{3, 3})->name, "c");
  EXPECT_EQ(v.find(node_id_of("d")), nullptr);
  EXPECT_EQ(v.find(incarnation{9, 9}), nullptr);
  EXPECT_EQ(v.find(node_id_of("b"), incarnation{2, 2}), v.find(node_id_of("b")));
  EXPECT_EQ(v.find(node_id_of("b"), incarnation{3, 3}), nullptr) << "another process";
  EXPECT_EQ(v.find(node_id_of("d"), incarnation{2, 2}), nullptr);
  EXPECT_EQ(v.find_name("a"), v.leader());
  EXPECT_TRUE(v.is_master("a"));
  EXPECT_FALSE(v.is_master("b"));
  EXPECT_EQ(view{}.leader(), nullptr);
}

TEST(view, is_newer_by_term_then_version_then_issuer) {
  view v{.term = 2, .version = 5, .issuer = {1, 0}};
  EXPECT_FALSE(v.newer_than(v));
  EXPECT_TRUE(v.newer_than(view{.term = 1, .version = 9, .issuer = {9, 9}}));
  EXPECT_FALSE(v.newer_than(view{.term = 3, .version = 1, .issuer = {0, 0}}));
  EXPECT_TRUE(v.newer_than(view{.term = 2, .version = 4, .issuer = {9, 9}}));
  EXPECT_FALSE(v.newer_than(view{.term = 2, .version = 5, .issuer = {2, 0}}));
  EXPECT_TRUE(v.newer_than(view{}));
}

} // namespace
} // namespace peercache::discovery
