// Tests of a node in whose files bits flipped while it was down: it reports and drops the damaged
// pages and serves all others.

#include "disk_node.hpp"

#include <filesystem>
#include <fstream>
#include <random>

namespace peercache::real {

using metrics::metric;
namespace {

class disk_rot : public testing::TestWithParam<std::string> {
protected:
  /// Flips one bit of each file of the tier, RocksDB's included, and one more for every 64 KiB.
  /// Returns the number of changed files. The lock is left alone because it is empty; `disk.owner`
  /// and `disk.cleared` are, because without them the node would start no disk tier.
  static std::uint32_t flip_bits(const std::filesystem::path& folder) {
    std::mt19937_64 random(1);
    std::uint32_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const auto bytes = entry.is_regular_file() ? entry.file_size() : 0;
      const auto name = entry.path().filename();
      if (bytes == 0 || name == "disk.owner" || name == "disk.cleared")
        continue;
      ++files;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      for (std::uint64_t flips = 1 + bytes / (64u << 10); flips != 0; --flips) {
        const auto at = static_cast<std::streamoff>(random() % bytes);
        file.seekg(at);
        const auto byte = file.get();
        file.seekp(at);
        file.put(static_cast<char>(byte ^ 1 << random() % 8));
      }
      EXPECT_TRUE(file) << entry.path();
    }
    return files;
  }
};
INSTANTIATE_TEST_SUITE_P(with, disk_rot, testing::Values("bucket", "file_per_key", "offset"),
                         [](const auto& info) { return info.param; });

TEST_P(disk_rot, is_counted_and_no_wrong_byte_is_served) {
  constexpr std::uint32_t pages = 400;
  disk_node::options options;
  options.store = GetParam();
  // Less than the default, because `flip_bits` flips a bit for each 64 KiB, and the file of the
  // store `offset` has this size even when it is nearly empty.
  options.disk_bytes = 32u << 20;
  disk_node node(options);
  ASSERT_TRUE(node.settled());
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(0, pages));
  ASSERT_EQ(node.status()->count(metric::disk_records), pages);
  node.bury(milliseconds(0));
  ASSERT_GT(flip_bits(node.disk_path()), 0u);
  ASSERT_TRUE(node.start({}));
  ASSERT_TRUE(node.settled());
  EXPECT_TRUE(node.status()->is(metric::disk_on)) << node.status()->disk.why_off;
  ASSERT_NO_FATAL_FAILURE(node.verify_and_wait());
  const auto left = node.count_hits(0, pages);
  EXPECT_GT(left, 0u);
  EXPECT_LT(left, pages);
  ASSERT_TRUE(node.alive());
  const auto now = node.status()->samples;
  auto lost = now.count(metric::disk_checksum_failures_total);
  for (const auto* reason : {"torn", "foreign", "replaced", "corrupt"})
    lost += now.count(metric::disk_dropped_records, {reason});
  EXPECT_GT(lost, 0u);
  ASSERT_NO_FATAL_FAILURE(node.put_to_disk(1000, 64));
  EXPECT_EQ(node.count_hits(1000, 64), 64u);
}

} // namespace
} // namespace peercache::real
