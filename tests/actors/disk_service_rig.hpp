#pragma once

#include "actors/disk/disk_service.hpp"
#include "common/checksum.hpp"
#include "common/limits.hpp"
#include "common/page_status.hpp"
#include "tests/actors/cluster_fixture.hpp"
#include "tests/storage/device/device_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>

namespace peercache::actors {

/// A disk service on a real folder, and a pool of pages of one length. Page i lies in the pool at
/// an offset computed from i. The test's thread plays the disk's thread.
class disk_service_rig : public testing::TestWithParam<config::disk_store_mode> {
protected:
  disk_service_rig(const std::string& name, std::uint32_t page_bytes, std::uint64_t pool_bytes)
      : page_bytes_(page_bytes) {
    config.cluster.name = name;
    config.pool.size_bytes = pool_bytes;
    config.disk.enabled = true;
    config.disk.path = folder.path();
    config.disk.store = GetParam();
    config.disk.high_watermark = 0.95;
    config.disk.low_watermark = 0.9;
    config.disk.bucket_keys = 500;
    config.disk.queue_depth = 16;
    storage::pool_memory_options pool;
    pool.name_prefix = "peercache-test-" + name;
    pool.node_name = "here";
    pool.owner = {1, static_cast<std::uint64_t>(::getpid())};
    pool.size_bytes = config.pool.size_bytes;
    auto made = storage::pool_memory::create(pool);
    EXPECT_TRUE(made) << made.error().message;
    memory.emplace(std::move(*made));
  }

  void open_disk() {
    disk = disk_service::open(config, member_named("here", 1), *memory);
    EXPECT_TRUE(disk->on()) << disk->report().why_off;
  }

  static page_key key_of(std::uint32_t number) {
    return key_named("page " + std::to_string(number));
  }
  slot_id slot_of(std::uint32_t number) const {
    return slot_id{number * (page_bytes_ / static_cast<std::uint32_t>(limits::granule_bytes))};
  }
  std::span<std::byte> bytes_of(std::uint32_t number) const {
    return memory->slots().bytes(slot_of(number), page_bytes_);
  }

  /// Fills a page, pins it and reserves its bytes at the gate, as the pool does before it gives the
  /// page to the disk. Returns the page's kept_page record.
  std::string kept(std::uint32_t number) {
    auto slots = memory->slots();
    std::fill(bytes_of(number).begin(), bytes_of(number).end(), std::byte(number + 1));
    const auto checksum = checksum_of(bytes_of(number));
    auto gen = generations[number];
    if (gen.value == 0) {
      slots.begin_fill(slot_of(number));
      gen = generations[number] =
          slots.publish(slot_of(number), key_of(number), page_bytes_, checksum);
    }
    EXPECT_EQ(slots.pin_if(slot_of(number), gen, key_of(number), page_bytes_), page_status::hit);
    disk->gate().set_open(true);
    EXPECT_TRUE(disk->gate().enter(page_bytes_));
    std::string record;
    append_record(record,
                  kept_page{key_of(number), gen.value, checksum, slot_of(number), page_bytes_});
    return record;
  }

  storage::device_folder folder;
  config::node_config config;
  std::optional<storage::pool_memory> memory;
  std::map<std::uint32_t, generation> generations;
  std::unique_ptr<disk_service> disk;

private:
  const std::uint32_t page_bytes_;
};

inline const auto all_disk_stores =
    testing::Values(config::disk_store_mode::bucket, config::disk_store_mode::file_per_key,
                    config::disk_store_mode::offset);

inline std::string store_name(const testing::TestParamInfo<config::disk_store_mode>& info) {
  return std::string(
      config::words_of<config::disk_store_mode>[static_cast<std::size_t>(info.param)]);
}

} // namespace peercache::actors
