// Tests of pools in huge pages, of each size that this host has enough free ones of.

#include "storage/pool_layout.hpp"
#include "storage/pool_memory.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <optional>
#include <string>
#include <sys/mount.h>
#include <unistd.h>

namespace peercache::storage::huge_pages_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A mounted folder with huge pages of one size, for a pool of one of them.
class huge_pages : public testing::TestWithParam<std::uint64_t> {
protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "only root mounts a hugetlbfs";
    if (free_pages() < pages_of_pool())
      GTEST_SKIP() << pages_of_pool() << " huge pages have to be free: echo " << pages_of_pool()
                   << " > " << kernel_folder() << "/nr_hugepages";
    std::string name = "/tmp/peercache-huge-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    const auto size = "pagesize=" + std::to_string(GetParam());
    ASSERT_EQ(::mount("none", name.c_str(), "hugetlbfs", 0, size.c_str()), 0);
    options.huge_page_directory = folder;
  }
  void TearDown() override {
    if (!folder.empty()) {
      EXPECT_EQ(::umount(folder.c_str()), 0);
      std::filesystem::remove(folder);
    }
  }

  static std::uint64_t pages_of_pool() {
    return plan_layout(GetParam(), GetParam())->object_bytes / GetParam();
  }
  static std::string kernel_folder() {
    return "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(GetParam() >> 10) + "kB";
  }
  static std::uint64_t free_pages() {
    std::uint64_t count = 0;
    std::ifstream(kernel_folder() + "/free_hugepages") >> count;
    return count;
  }

  pool_memory_options options{.name_prefix = "peercache-test-huge-" + std::to_string(::getpid()),
                              .node_name = "node",
                              .owner = incarnation::random(),
                              .size_bytes = GetParam(),
                              .huge_page_bytes = GetParam()};
  std::string folder;
};

TEST_P(huge_pages, hold_a_pool_that_clients_map_and_are_free_after_it) {
  const auto before = free_pages();
  {
    auto owner = pool_memory::create(options);
    ASSERT_TRUE(owner) << owner.error().message;
    EXPECT_EQ(owner->page_bytes(), GetParam());
    EXPECT_EQ(free_pages(), before - pages_of_pool());
    auto client = pool_memory::attach(owner->name(), owner->owner());
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_TRUE(client->lock_session(0));
    EXPECT_FALSE(owner->session_is_dead(0));
    const slot_id last{owner->granules() - 1};
    client->slots().bytes(last, 4096).back() = std::byte{42};
    EXPECT_EQ(owner->slots().bytes(last, 4096).back(), std::byte{42});
    EXPECT_TRUE(owner->check_object());
  }
  EXPECT_EQ(free_pages(), before) << "a mapping is left";
}

TEST_P(huge_pages, that_are_too_few_or_of_another_size_are_refused_with_option_and_remedy) {
  auto larger = options;
  larger.size_bytes = (free_pages() + 1) * GetParam();
  const auto few = pool_memory::create(larger);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, errc::out_of_memory);
  EXPECT_THAT(few.error().message, AllOf(HasSubstr("kB/nr_hugepages"), HasSubstr("pool.size")));
  auto other = options;
  other.huge_page_bytes = GetParam() * 2;
  other.size_bytes = other.huge_page_bytes;
  const auto wrong = pool_memory::create(other);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message,
              AllOf(HasSubstr("not of " + std::to_string(GetParam() >> 19) + " MiB"),
                    HasSubstr("pool.huge_pages"), HasSubstr("mount -t hugetlbfs -o pagesize=")));
}

INSTANTIATE_TEST_SUITE_P(of, huge_pages,
                         testing::Values(std::uint64_t{2} << 20, std::uint64_t{1} << 30),
                         [](const auto& info) {
                           return std::string(info.param >> 30 != 0 ? "1GiB" : "2MiB");
                         });

} // namespace
} // namespace peercache::storage::huge_pages_test
