// Pages go between a node's pool and its disk without a copy: out of the slot where a set left
// them, and into the one that a promotion reserved. The test's thread is the disk's.

#include "actors/disk_service.hpp"

#include "common/limits.hpp"
#include "common/page_status.hpp"
#include "tests/actors/cluster_fixture.hpp"
#include "tests/copies/copied_bytes.hpp"
#include "tests/storage/device/device_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t page_bytes = 256u << 10;
constexpr std::uint32_t pages = 16;

class node_copies : public testing::TestWithParam<config::disk_store_mode> {
protected:
  node_copies() {
    config.cluster.name = "node-copies";
    config.pool.size_bytes = 4 * pages * page_bytes; // Some of it may wait for the disk.
    config.disk.enabled = true;
    config.disk.path = folder.path();
    config.disk.store = GetParam();
    config.disk.size_bytes = 256u << 20;
    config.disk.bucket_bytes = 16u << 20;
    config.disk.bucket_keys = 500;
    config.disk.high_watermark = 0.95;
    config.disk.low_watermark = 0.9;
    config.disk.queue_depth = 16;
    config.disk.queue_bytes = pages * page_bytes;
    storage::pool_memory_options pool;
    pool.name_prefix = "peercache-test-node-copies";
    pool.node_name = "here";
    pool.owner = {1, static_cast<std::uint64_t>(::getpid())};
    pool.size_bytes = config.pool.size_bytes;
    auto made = storage::pool_memory::create(pool);
    EXPECT_TRUE(made) << made.error().message;
    memory.emplace(std::move(*made));
    copies::watch(memory->readable_region());
    disk = disk_service::open(config, member_named("here", 1), *memory);
    EXPECT_TRUE(disk->on()) << disk->report().why_off;
  }
  ~node_copies() override {
    disk.reset();
    copies::watch({});
  }

  static page_key key_of(std::uint32_t number) {
    return key_named("page " + std::to_string(number));
  }
  /// Of the first half of the pool; the second is for promotions.
  static slot_id slot_of(std::uint32_t number) {
    return slot_id{number * (page_bytes / static_cast<std::uint32_t>(limits::granule_bytes))};
  }
  std::span<std::byte> bytes_of(std::uint32_t number) const {
    return memory->slots().bytes(slot_of(number), page_bytes);
  }

  /// The record of a page in its slot, pinned and let through the gate as the pool does.
  std::string kept(std::uint32_t number) {
    auto slots = memory->slots();
    std::fill(bytes_of(number).begin(), bytes_of(number).end(), std::byte(number + 1));
    slots.begin_fill(slot_of(number));
    const auto gen = slots.publish(slot_of(number), key_of(number), page_bytes, 0);
    EXPECT_EQ(slots.pin_if(slot_of(number), gen, key_of(number), page_bytes), page_status::hit);
    disk->gate().set_open(true);
    EXPECT_TRUE(disk->gate().enter(page_bytes));
    std::string record;
    append_record(record, kept_page{key_of(number), gen.value, 0, slot_of(number), page_bytes});
    return record;
  }

  storage::device_folder folder;
  config::node_config config;
  std::optional<storage::pool_memory> memory;
  std::unique_ptr<disk_service> disk;
};

INSTANTIATE_TEST_SUITE_P(
    with, node_copies,
    testing::Values(config::disk_store_mode::bucket, config::disk_store_mode::file_per_key,
                    config::disk_store_mode::offset),
    [](const auto& info) {
      return std::string(
          config::words_of<config::disk_store_mode>[static_cast<std::size_t>(info.param)]);
    });

TEST_P(node_copies, no_page_byte_is_copied_between_pool_and_disk) {
  for (std::uint32_t number = 0; number < pages; ++number)
    disk->write(kept(number));
  copies::take_copied_bytes();
  std::uint64_t copied_on_the_way_out = 0;
  std::size_t stored = 0;
  std::string loaded;
  // A write that fails is told to nobody.
  std::jthread at_the_latest([this](std::stop_token ended) {
    std::mutex lock;
    std::unique_lock hold(lock);
    std::condition_variable_any().wait_for(hold, ended, 60s, [] { return false; });
    disk->stop();
  });
  disk->run([&](const disk_turn_ptr& turn) {
    const auto now_stored = record_count<stored_page>(turn->stored).value_or(0);
    stored += now_stored;
    if (now_stored != 0 && stored == pages) {
      copied_on_the_way_out = copies::take_copied_bytes();
      std::string wanted;
      for (std::uint32_t number = 0; number < pages; ++number)
        append_record(wanted, wanted_page{key_of(number), slot_of(pages + number), page_bytes});
      disk->load(1, wanted);
    }
    if (!turn->answers.empty()) {
      loaded = turn->answers.front().records;
      disk->stop();
    }
  });
  ASSERT_EQ(stored, pages);
  EXPECT_EQ(copied_on_the_way_out, 0u);
  EXPECT_EQ(copies::take_copied_bytes(), 0u) << "on the way back";
  ASSERT_EQ(record_count<loaded_page>(loaded), pages);
  for (std::uint32_t number = 0; number < pages; ++number) {
    EXPECT_EQ(record_at<loaded_page>(loaded, number).found, 1u);
    EXPECT_TRUE(std::ranges::equal(bytes_of(number), bytes_of(pages + number)));
  }
  // Had a byte been copied, it would have been seen.
  std::byte seen{};
  const volatile std::size_t one = 1; // Not known to the compiler.
  std::memcpy(&seen, bytes_of(0).data(), one);
  EXPECT_EQ(copies::take_copied_bytes(), 1u);
}

} // namespace
} // namespace peercache::actors
