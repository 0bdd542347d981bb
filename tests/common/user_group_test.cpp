#include "common/user_group.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace peercache {
namespace {

TEST(user_group, is_known_by_name_and_by_number) {
  EXPECT_EQ(*group_named("root"), gid_t{0});
  EXPECT_EQ(*group_named("4711"), gid_t{4711});
  EXPECT_EQ(*group_named(""), std::nullopt);
}

TEST(user_group, that_this_host_does_not_have_is_an_error) {
  const auto found = group_named("peercache-no-such-group");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("peercache-no-such-group"), std::string::npos);
  EXPECT_FALSE(group_named("4294967295")) << "to the kernel this number is no group";
}

TEST(user_group, of_the_environment_is_the_one_that_its_variable_names) {
  ::unsetenv(node_group_variable);
  EXPECT_EQ(group_in_environment(), "");
  ::setenv(node_group_variable, "4711", 1);
  EXPECT_EQ(group_in_environment(), "4711");
  ::unsetenv(node_group_variable);
}

} // namespace
} // namespace peercache
