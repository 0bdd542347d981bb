#include "common/ids.hpp"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace peercache {
namespace {

TEST(ids, a_node_id_depends_on_the_name_only) {
  EXPECT_EQ(node_id_of("host1"), node_id_of(std::string("host") + "1"));
  EXPECT_NE(node_id_of("host1"), node_id_of("host2"));
}

TEST(ids, are_printed_with_all_their_digits) {
  EXPECT_EQ(to_string(node_id{0xab}), "00000000000000ab");
  EXPECT_EQ(to_string(incarnation{1, 0xff}), "000000000000000100000000000000ff");
}

TEST(ids, incarnations_are_never_drawn_twice) {
  std::set<incarnation> drawn;
  for (int i = 0; i < 1000; ++i)
    drawn.insert(incarnation::random());
  EXPECT_EQ(drawn.size(), 1000u);
  EXPECT_FALSE(drawn.contains(incarnation{}));
}

TEST(ids, only_even_generations_after_zero_are_readable) {
  EXPECT_FALSE(generation{0}.readable());
  EXPECT_FALSE(generation{1}.readable());
  EXPECT_TRUE(generation{2}.readable());
  EXPECT_FALSE(generation{3}.readable());
}

} // namespace
} // namespace peercache
