// Nodes that are killed at named steps of their disk, and started again on it.

#include "disk_node.hpp"

#include "storage/disk/faulty_disk_io.hpp"

#include <cstdlib>
#include <tuple>

namespace peercache::real {
namespace {

using storage::disk_step;

/// How often each step is killed at; scripts may ask for more.
std::uint32_t rounds() {
  const char* wanted = std::getenv("PEERCACHE_DISK_CRASH_ROUNDS");
  return wanted != nullptr ? static_cast<std::uint32_t>(std::atoi(wanted)) : 1;
}

class disk_crash : public testing::TestWithParam<std::tuple<std::string, disk_step>> {
protected:
  static const std::string& store() { return std::get<0>(GetParam()); }
  static disk_step step() { return std::get<1>(GetParam()); }

  /// Each round comes to the step another time.
  static std::vector<std::pair<std::string, std::string>> killed_at(std::uint32_t round) {
    const bool rare = step() != disk_step::write_submitted && step() != disk_step::write_done;
    return {{"PEERCACHE_TEST_DISK_KILL_POINT", std::to_string(static_cast<int>(step()))},
            {"PEERCACHE_TEST_DISK_KILL_COUNT", std::to_string(1 + round * (rare ? 1 : 37))}};
  }

  /// Whether this store takes the step at all while it works.
  static bool comes_there() {
    if (store() == "bucket")
      return step() != disk_step::rename;
    if (store() == "file_per_key")
      return step() != disk_step::truncate;
    return step() != disk_step::rename && step() != disk_step::remove &&
           step() != disk_step::truncate;
  }

  /// Puts pages, and reads old ones, until the node is dead or it has had enough. How many pages
  /// were on disk when it was last asked.
  static std::uint64_t work(disk_node& node, std::uint32_t pages) {
    std::uint64_t on_disk = 0;
    for (std::uint32_t id = 0; id < pages; ++id) {
      if (node.put(id) != page_status::stored && !node.alive())
        break;
      if (id % 100 != 99)
        continue;
      node.settled(); // The disk keeps up, or is dead.
      node.get(id / 2, milliseconds(200));
      if (const auto now = node.status())
        on_disk = now->disk.pages;
    }
    return on_disk;
  }
};

TEST_P(disk_crash, what_was_durable_is_found_again_and_right) {
  constexpr std::uint32_t pages = 1500; // 24 MiB.
  // Files are removed when the disk is full.
  const bool fills = step() == disk_step::remove;
  for (std::uint32_t round = 0; round < rounds(); ++round) {
    disk_node::options options;
    options.store = store();
    options.disk_bytes = fills ? 16u << 20 : 256u << 20;
    options.environment = killed_at(round);
    disk_node node(options);
    const auto on_disk = node.status() ? work(node, pages) : 0;
    const bool was_killed = node.bury(milliseconds(0));
    if (round == 0) {
      EXPECT_EQ(was_killed, comes_there());
    }
    ASSERT_TRUE(node.start({}));
    ASSERT_TRUE(node.settled());
    const auto recovered = node.status()->disk.recovered;
    node.verify_disk();
    ASSERT_TRUE(within(milliseconds(20'000), [&] {
      const auto now = node.status();
      return now && !now->disk.verifying && now->disk.scrubbed_bytes >= now->disk.page_bytes;
    }));
    EXPECT_EQ(node.status()->disk.checksum_failures, 0u);
    std::uint64_t found = 0;
    for (std::uint32_t id = 0; id < pages; ++id) {
      const auto read = node.get(id);
      if (read.result.status != page_status::hit)
        continue;
      ++found;
      ASSERT_EQ(read.wrong_bytes, 0u) << "page " << id;
    }
    if (fills)
      continue; // Some were evicted on purpose.
    EXPECT_GE(recovered, on_disk);
    EXPECT_EQ(found, recovered);
  }
}

std::string name_of(const testing::TestParamInfo<disk_crash::ParamType>& info) {
  constexpr std::array names = {"",
                                "create",
                                "rename",
                                "remove",
                                "truncate",
                                "sync_folder",
                                "write_submitted",
                                "write_done",
                                "sync_submitted",
                                "sync_done",
                                "read_done"};
  return std::get<0>(info.param) + "_at_" +
         names[static_cast<std::size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(
    at, disk_crash,
    testing::Combine(testing::Values("bucket", "file_per_key", "offset"),
                     testing::Values(disk_step::create, disk_step::rename, disk_step::remove,
                                     disk_step::truncate, disk_step::sync_folder,
                                     disk_step::write_submitted, disk_step::write_done,
                                     disk_step::sync_submitted, disk_step::sync_done,
                                     disk_step::read_done)),
    name_of);

} // namespace
} // namespace peercache::real
