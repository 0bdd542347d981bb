#include "storage/pool_memory.hpp"

#include "storage/pool_header.hpp"
#include "storage/shared_object.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <new>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage::pool_object_check_test {
namespace {

class pool_object_check : public testing::Test {
protected:
  void SetUp() override {
    auto made =
        pool_memory::create({.name_prefix = "peercache-test-object-" + std::to_string(::getpid()),
                             .node_name = "node",
                             .owner = incarnation::random(),
                             .size_bytes = 8u << 20});
    ASSERT_TRUE(made) << made.error().message;
    pool = std::move(*made);
    ASSERT_TRUE(pool->check_object());
  }

  /// Runs the check and returns the fault that it finds; empty: none. Expects that a client can map
  /// the pool exactly when there is no fault.
  std::string fault() const {
    const auto checked = pool->check_object();
    EXPECT_EQ(static_cast<bool>(checked),
              static_cast<bool>(pool_memory::attach(pool->name(), pool->owner())));
    return checked ? "" : checked.error().message;
  }

  std::optional<pool_memory> pool;
};

TEST_F(pool_object_check, says_when_the_name_is_gone) {
  shared_object::unlink(pool->name());
  EXPECT_NE(fault().find("is gone"), std::string::npos) << fault();
}

TEST_F(pool_object_check, says_nothing_when_the_host_has_no_descriptor_for_it) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto checked = pool->check_object();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(checked) << checked.error().message;
}

TEST_F(pool_object_check, says_when_the_name_is_another_objects) {
  shared_object::unlink(pool->name());
  const auto other = shared_object::create_locked(pool->name());
  ASSERT_TRUE(other);
  EXPECT_NE(fault().find("is gone"), std::string::npos) << fault();
  ::close(*other);
}

TEST_F(pool_object_check, says_when_others_may_use_the_object) {
  ASSERT_EQ(::chmod(("/dev/shm" + pool->name()).c_str(), 0666), 0);
  EXPECT_NE(fault().find("mode"), std::string::npos) << fault();
}

TEST_F(pool_object_check, says_when_the_object_is_short_without_touching_it) {
  ASSERT_EQ(::truncate(("/dev/shm" + pool->name()).c_str(), 0), 0);
  EXPECT_NE(fault().find("shorter"), std::string::npos) << fault();
}

TEST_F(pool_object_check, says_when_the_header_is_damaged_and_when_it_is_well_again) {
  const int file = shared_object::open(pool->name(), O_RDWR);
  ASSERT_GE(file, 0);
  void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(at, MAP_FAILED);
  auto& header = *std::launder(static_cast<pool_header*>(at));
  header.granules ^= 1;
  EXPECT_NE(fault().find("damaged"), std::string::npos) << fault();
  header.granules ^= 1;
  EXPECT_EQ(fault(), "");
  header.owner = incarnation::random();
  EXPECT_NE(fault().find("damaged"), std::string::npos) << fault();
  ::munmap(at, 4096);
  ::close(file);
}

} // namespace
} // namespace peercache::storage::pool_object_check_test
