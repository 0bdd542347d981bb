// Tests of pages that a node writes to its disk more than once, or at the last moment.

#include "disk_node.hpp"

namespace peercache::real {
namespace {

class disk_again : public testing::TestWithParam<std::string> {
protected:
  disk_node::options wanted() const {
    disk_node::options options;
    options.store = GetParam();
    options.flags = {"--pool-eviction", "lru"};
    return options;
  }

  /// Sets pages from number `first` on, so many that all earlier pages leave memory. Every page is
  /// on disk when this returns.
  static void push_out(disk_node& node, std::uint32_t first) {
    for (std::uint32_t id = first; id < first + 560; ++id) {
      ASSERT_EQ(node.put(id), page_status::stored);
      if (id % 64 == 0) {
        ASSERT_TRUE(node.client().flush());
        ASSERT_TRUE(node.settled());
      }
    }
    ASSERT_TRUE(node.client().flush());
    ASSERT_TRUE(node.settled());
  }
};
INSTANTIATE_TEST_SUITE_P(with, disk_again, testing::Values("bucket", "file_per_key", "offset"),
                         [](const auto& info) { return info.param; });

TEST_P(disk_again, pages_that_were_set_again_while_they_were_on_disk_are_found_there) {
  constexpr std::uint32_t pages = 16;
  disk_node node(wanted());
  ASSERT_TRUE(node.settled());
  const auto put_all = [&] {
    for (std::uint32_t id = 0; id < pages; ++id)
      ASSERT_EQ(node.put(id), page_status::stored);
    ASSERT_TRUE(node.client().flush());
    ASSERT_TRUE(node.settled());
  };
  put_all();
  push_out(node, 1000);
  put_all();
  push_out(node, 2000);
  for (std::uint32_t id = 0; id < pages; ++id) {
    const auto read = node.get(id);
    EXPECT_EQ(read.result.status, page_status::hit) << id;
    EXPECT_TRUE(read.result.status != page_status::hit || read.wrong_bytes == 0);
  }
}

} // namespace
} // namespace peercache::real
