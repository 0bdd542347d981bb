#include "storage/pool_memory.hpp"

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

pool_memory_options shared_options() {
  pool_memory_options options;
  options.name_prefix = "peercache-test-group-" + std::to_string(::getpid());
  options.node_name = "node";
  options.owner = incarnation::random();
  options.size_bytes = 8u << 20;
  options.group = ::getegid();
  return options;
}

TEST(pool_group, a_pool_that_is_shared_is_mapped_by_its_user_and_by_those_who_know_the_group) {
  auto owner = pool_memory::create(shared_options());
  ASSERT_TRUE(owner) << owner.error().message;
  const auto path = "/dev/shm" + owner->name();
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  EXPECT_TRUE(owner->check_object());
  EXPECT_TRUE(pool_memory::attach(owner->name(), owner->owner())) << "its own user";
  if (::geteuid() != 0)
    return; // Only root can give a file to another user.
  ASSERT_EQ(::chown(path.c_str(), 65534, 54321), 0);
  const auto attach = [&](std::optional<gid_t> group) {
    return static_cast<bool>(pool_memory::attach(owner->name(), owner->owner(), group));
  };
  EXPECT_TRUE(attach(54321));
  EXPECT_FALSE(attach({}));
  EXPECT_FALSE(attach(54322)) << "another group";
  ASSERT_EQ(::chmod(path.c_str(), 0664), 0);
  EXPECT_FALSE(attach(54321)) << "everybody may read it";
}

} // namespace
} // namespace peercache::storage
