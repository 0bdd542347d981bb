#include "common/user_group.hpp"

#include <gtest/gtest.h>

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

} // namespace
} // namespace peercache
