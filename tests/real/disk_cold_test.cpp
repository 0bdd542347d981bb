// Pages that are only on another node's disk.

#include "client/admin_client.hpp"
#include "local_ring.hpp"

#include <unistd.h>

namespace peercache::real {
namespace {

class disk_cold : public local_ring, public testing::WithParamInterface<std::string> {
protected:
  void SetUp() override {
    auto folder = cli::run_folder::make("peercache-cold");
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
    cli::local_cluster_options options{.count = 2, .folder = folder_->path()};
    options.prototype.program = PEERCACHE_CLI_DIR "/peercache-node";
    options.prototype.cluster = "cold-" + std::to_string(::getpid());
    options.prototype.pool_bytes = 8u << 20;
    options.prototype.flags = {"--disk-path",        (folder_->path() / "disk").string(),
                               "--disk-size",        "64MiB",
                               "--disk-store",       GetParam(),
                               "--disk-bucket-size", "1MiB",
                               "--pool-eviction",    "lru"};
    auto nodes = cli::start_local_cluster(options);
    ASSERT_TRUE(nodes) << nodes.error().message;
    nodes_ = std::move(*nodes);
  }

  client::node_status status_of(std::size_t index) {
    auto admin = client::admin_client::connect("127.0.0.1", node(index).ports().control_port,
                                               cluster(), milliseconds(10'000));
    auto status = admin ? (*admin)->status() : admin.error();
    EXPECT_TRUE(status) << status.error().message;
    return status ? *status : client::node_status{};
  }

  /// Puts these, and waits until nothing is on its way to the node's disk.
  void put_to_disk(client::cache_client& client, std::size_t index, std::uint32_t first,
                   std::uint32_t count) {
    constexpr std::uint32_t at_once = 64; // Half of what the disk's queue takes of this pool.
    for (std::uint32_t done = 0; done < count; done += at_once) {
      put(client, first + done, std::min(at_once, count - done));
      ASSERT_TRUE(
          within(milliseconds(60'000), [&] { return status_of(index).disk.queue_bytes == 0; }));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(with, disk_cold, testing::Values("bucket", "file_per_key", "offset"),
                         [](const auto& info) { return info.param; });

TEST_P(disk_cold, pages_on_another_nodes_disk_come_in_one_call) {
  constexpr std::uint32_t cold = 32;
  auto here = client_of(0);
  auto there = client_of(1);
  put_to_disk(*here, 0, 0, cold);
  put_to_disk(*here, 0, 1000, 560); // More than the pool holds: the cold ones leave it.
  const auto promoted = status_of(0).promotes.promoted;
  for (std::uint32_t id = 0; id < cold; ++id) {
    const auto read = get(*there, id, milliseconds(10'000));
    EXPECT_EQ(to_string(read.result.status), to_string(page_status::hit)) << id;
    EXPECT_EQ(to_string(read.result.origin), to_string(client::page_origin::disk)) << id;
    EXPECT_EQ(read.check.wrong_bytes, 0u) << id;
  }
  EXPECT_GE(status_of(0).promotes.promoted, promoted + cold) << "by the node that has them";
  EXPECT_EQ(status_of(1).disk.reads, 0u);
}

} // namespace
} // namespace peercache::real
