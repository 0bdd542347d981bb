// Tests that pages which are read again and again stay in memory while a client reads many pages
// once that are only on disk.

#include "disk_node.hpp"

namespace peercache::real {
namespace {

class disk_scan : public testing::TestWithParam<std::string> {
protected:
  /// Reads the pages [first, first + count) once; expects a hit with the right bytes for each.
  /// Returns how many came from disk.
  static std::uint32_t from_disk(disk_node& node, std::uint32_t first, std::uint32_t count) {
    std::uint32_t found = 0;
    for (std::uint32_t id = first; id < first + count; ++id) {
      const auto read = node.get(id, milliseconds(10'000));
      EXPECT_EQ(read.result.status, page_status::hit) << id;
      EXPECT_EQ(read.wrong_bytes, 0u) << id;
      found += read.result.origin == page_origin::disk;
    }
    return found;
  }
};
INSTANTIATE_TEST_SUITE_P(with, disk_scan, testing::Values("lru", "s3fifo", "auto"),
                         [](const auto& info) { return info.param; });

TEST_P(disk_scan, leaves_in_memory_what_is_read_again_and_again) {
  // More than twice as many pages as the pool holds (512).
  constexpr std::uint32_t cold = 1200;
  constexpr std::uint32_t hot_first = 5000, hot = 200;
  disk_node::options options;
  options.flags = {"--pool-eviction", GetParam()};
  disk_node node(options);
  ASSERT_TRUE(node.settled());
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, cold));
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(hot_first, hot));
  for (int again = 0; again < 3; ++again)
    ASSERT_EQ(from_disk(node, hot_first, hot), 0u);
  constexpr std::uint32_t scanned = 600;
  EXPECT_EQ(from_disk(node, 0, scanned), scanned) << "they had left memory";
  EXPECT_LE(from_disk(node, hot_first, hot), hot / 20);
}

} // namespace
} // namespace peercache::real
