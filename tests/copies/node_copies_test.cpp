// Tests that a node copies no page between its pool and its disk: pages are written from the slot
// in which a set left them, and read into the slot that a promotion reserved. The test's thread
// plays the disk's thread.

#include "tests/actors/disk_service_rig.hpp"
#include "tests/copies/copied_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t page_bytes = 256u << 10;
constexpr std::uint32_t pages = 16;

/// The first half of the pool's offsets is for pages that are written to disk, the second half for
/// promotions.
class node_copies : public disk_service_rig {
protected:
  /// The pool holds four times the pages, because only a part of it may wait for the disk.
  node_copies() : disk_service_rig("node-copies", page_bytes, 4 * pages * page_bytes) {
    config.disk.size_bytes = 256u << 20;
    config.disk.bucket_bytes = 16u << 20;
    config.disk.queue_bytes = pages * page_bytes;
    copies::watch(memory->readable_region());
    open_disk();
  }
  ~node_copies() override {
    disk.reset();
    copies::watch({});
  }
};

INSTANTIATE_TEST_SUITE_P(with, node_copies, all_disk_stores, store_name);

TEST_P(node_copies, no_page_byte_is_copied_between_pool_and_disk) {
  for (std::uint32_t number = 0; number < pages; ++number)
    disk->write(kept(number));
  copies::take_copied_bytes();
  std::uint64_t copied_on_the_way_out = 0;
  std::size_t stored = 0;
  std::string loaded;
  // Stops the disk after 60 s, because a write that fails reports nothing, and `run` would not
  // return.
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
  // Checks that the watch works, by a copy of one byte.
  std::byte seen{};
  const volatile std::size_t one = 1; // The compiler must not know the length.
  std::memcpy(&seen, bytes_of(0).data(), one);
  EXPECT_EQ(copies::take_copied_bytes(), 1u);
}

} // namespace
} // namespace peercache::actors
