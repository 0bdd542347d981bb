// Tests of how a pool's memory is touched before it is used.

#include "tests/storage/pool_options.hpp"
#include "tests/support/qemu_user.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace peercache::storage::pool_prefault_test {
namespace {

TEST(pool_prefault, reports_growing_progress_up_to_the_whole) {
  auto options = options_for("progress");
  options.size_bytes = 200u << 20;
  options.prefault_threads = 3;
  std::uint64_t last = 0, total = 0;
  options.on_progress = [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    EXPECT_GT(done_bytes, last);
    last = done_bytes;
    total = total_bytes;
  };
  auto owner = pool_memory::create(options);
  ASSERT_TRUE(owner) << owner.error().message;
  EXPECT_EQ(last, total);
  EXPECT_GE(total, options.size_bytes);
  if (under_qemu_user())
    GTEST_SKIP() << "qemu-user does not prefault memory (MADV_POPULATE_WRITE)";
  struct stat status {};
  ASSERT_EQ(::stat(("/dev/shm" + owner->name()).c_str(), &status), 0);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, total);
}

TEST(pool_prefault, whole_huge_pages_are_touched_by_one_thread_each) {
  auto options = options_for("steps");
  // A pool that is laid out for huge pages of this size, in pages of the usual one.
  options.huge_page_bytes = 128u << 20;
  options.size_bytes = options.huge_page_bytes;
  options.prefault_threads = 0; // Only the parts in front of the pages are touched.
  std::uint64_t steps = 0;
  options.on_progress = [&](std::uint64_t done_bytes, std::uint64_t) {
    EXPECT_EQ(done_bytes % options.huge_page_bytes, 0u) << "a part of a huge page";
    ++steps;
  };
  const auto owner = pool_memory::create(options);
  ASSERT_TRUE(owner) << owner.error().message;
  EXPECT_EQ(steps, 3u);
}

} // namespace
} // namespace peercache::storage::pool_prefault_test
