// Tests of reads of pages that are only on another node's disk.

#include "client/admin_client.hpp"
#include "local_ring.hpp"

#include <array>
#include <cstdio>
#include <random>
#include <unistd.h>

namespace peercache::real {

using metrics::metric;
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

  /// Reads `batches` batches of 16 pages, chosen at random among the first `universe` pages.
  /// Returns how many reads were misses; expects the right bytes of each hit.
  std::uint32_t count_misses(client::cache_client& client, std::uint32_t universe,
                             std::uint32_t batches) {
    constexpr std::uint32_t at_once = 16;
    std::mt19937 random(3);
    std::vector<std::vector<std::byte>> bytes(at_once, std::vector<std::byte>(page_bytes));
    std::uint32_t misses = 0;
    for (std::uint32_t i = 0; i < batches; ++i) {
      std::array<page_part, at_once> parts;
      std::array<std::uint32_t, at_once> ids;
      std::vector<client::get_page> wanted;
      for (std::uint32_t k = 0; k < at_once; ++k) {
        ids[k] = static_cast<std::uint32_t>(random() % universe);
        parts[k] = {bytes[k].data(), page_bytes};
        wanted.push_back({key_of(ids[k]), {&parts[k], 1}});
      }
      std::array<client::page_result, at_once> results;
      client.get(wanted, results, clock::now() + milliseconds(10'000));
      for (std::uint32_t k = 0; k < at_once; ++k) {
        const bool hit = results[k].status == page_status::hit;
        misses += hit ? 0 : 1;
        EXPECT_TRUE(!hit || bench::check_page(ids[k], bytes[k]).wrong_bytes == 0) << ids[k];
      }
    }
    return misses;
  }

  /// Puts the pages [first, first + count), and waits until none is on its way to the disk of node
  /// `index`.
  void put_to_disk(client::cache_client& client, std::size_t index, std::uint32_t first,
                   std::uint32_t count) {
    // Half as many pages as may wait for the disk of a node with this pool.
    constexpr std::uint32_t at_once = 64;
    for (std::uint32_t done = 0; done < count; done += at_once) {
      put(client, first + done, std::min(at_once, count - done));
      ASSERT_TRUE(within(milliseconds(60'000),
                         [&] { return status_of(index).count(metric::disk_queue_bytes) == 0; }));
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
  // More pages than the pool holds, so the cold pages leave memory.
  put_to_disk(*here, 0, 1000, 560);
  const auto promoted = status_of(0).samples.count(metric::disk_promotes_total, {"promoted"});
  for (std::uint32_t id = 0; id < cold; ++id) {
    const auto read = get(*there, id, milliseconds(10'000));
    EXPECT_EQ(to_string(read.result.status), to_string(page_status::hit)) << id;
    EXPECT_EQ(to_string(read.result.origin), to_string(page_origin::disk)) << id;
    EXPECT_EQ(read.check.wrong_bytes, 0u) << id;
  }
  EXPECT_GE(status_of(0).samples.count(metric::disk_promotes_total, {"promoted"}), promoted + cold)
      << "by the node that has them";
  EXPECT_EQ(status_of(1).count(metric::disk_reads_total), 0u);
}

TEST_P(disk_cold, pages_that_leave_memory_while_they_are_read_are_found_on_disk) {
  constexpr std::uint32_t universe = 1200; // More than twice as many pages as the pool holds.
  constexpr std::uint32_t batches = 250;
  auto here = client_of(0);
  auto there = client_of(1);
  put_to_disk(*here, 0, 0, universe);
  // The directory hears up to a beat later that a page has left memory, so some records are stale:
  // a reader that did not ask the page's holder would miss three pages in a hundred.
  const auto misses = count_misses(*there, universe, batches);
  EXPECT_LE(misses, batches * 16 / 1000);
  std::printf("[ measured ] %u of %u reads were misses\n", misses, batches * 16);
}

TEST_P(disk_cold, pages_that_fit_the_pool_are_in_memory_when_they_are_read_again) {
  // `cold` is half of what the pool holds, `universe` more than twice.
  constexpr std::uint32_t cold = 256, universe = 1200;
  auto here = client_of(0);
  auto there = client_of(1);
  put_to_disk(*here, 0, 0, universe);
  // A few misses are allowed: the directory may not know yet that a page went to disk.
  std::uint32_t misses = 0;
  const auto from_disk = [&] {
    std::uint32_t count = 0;
    for (std::uint32_t id = 0; id < cold; ++id) {
      const auto read = get(*there, id, milliseconds(10'000));
      const bool hit = read.result.status == page_status::hit;
      misses += hit ? 0 : 1;
      EXPECT_TRUE(!hit || read.check.wrong_bytes == 0) << id;
      count += hit && read.result.origin == page_origin::disk ? 1 : 0;
    }
    return count;
  };
  ASSERT_GE(from_disk(), cold * 9 / 10) << "nothing is shown if they were in memory before";
  const auto again = from_disk();
  EXPECT_LE(misses, 1u) << "a page in a thousand may be on its way";
  EXPECT_LE(again + misses, cold / 20) << "pages that nobody has read are to make room";
  std::printf("[ measured ] %u of %u pages came from disk again, %u reads were misses\n", again,
              cold, misses);
}

} // namespace
} // namespace peercache::real
