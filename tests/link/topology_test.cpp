#include "link/protocol/topology.hpp"

#include "tests/link/named_members.hpp"

#include <gtest/gtest.h>

namespace peercache::link {
namespace {

TEST(topology, a_member_is_found_by_its_id_and_only_as_the_process_that_is_meant) {
  const auto a = member_named("a", 1);
  const auto b = member_named("b", 2);
  const auto known = topology_of({{a, {}}, {b, {}}}, 1);
  ASSERT_NE(known->find(b.id), nullptr);
  EXPECT_EQ(known->find(b.id)->self, b);
  EXPECT_EQ(known->find(b.id, b.inc), known->find(b.id));
  EXPECT_EQ(known->find(b.id, a.inc), nullptr) << "another process than the one that is meant";
  EXPECT_EQ(known->find(b.inc), known->find(b.id));
  const auto unknown = member_named("c", 1);
  EXPECT_EQ(known->find(unknown.id), nullptr);
  EXPECT_EQ(known->find(unknown.id, a.inc), nullptr);
  EXPECT_EQ(known->find(incarnation{9, 9}), nullptr);
}

} // namespace
} // namespace peercache::link
