#pragma once

#include "storage/disk/disk_tier.hpp"
#include "tests/storage/disk/scripted_store.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <optional>

namespace peercache::storage::tier_test {

using namespace std::chrono_literals;
using when = disk_clock::time_point;

inline page_key key_of(std::uint32_t number) {
  page_key key;
  key.bytes[0] = static_cast<std::uint8_t>(number);
  key.bytes[1] = static_cast<std::uint8_t>(number >> 8);
  return key;
}

inline constexpr std::uint32_t page_bytes = 10 * disk_block_bytes;

/// A fixture with a disk tier over a scripted_store.
class disk_tier_test : public testing::Test {
protected:
  disk_tier_test() {
    options.size_bytes = 100 * page_bytes;
    options.queue_bytes = 20 * page_bytes;
    options.scrub_bytes_per_s = 0;
  }
  ~disk_tier_test() override {
    if (tier)
      tier->close(1s, events);
  }

  disk_tier& make() {
    auto made = std::make_unique<scripted_store>();
    store = made.get();
    tier.emplace(std::move(made), options);
    return *tier;
  }

  write_skip write(std::uint32_t number) { return write(number, number); }

  write_skip write(std::uint32_t number, std::uint64_t checksum) {
    disk_write page;
    page.key = key_of(number);
    page.gen = {2};
    page.checksum = checksum;
    page.length_bytes = page_bytes;
    page.tag = number;
    return tier->write(page, now);
  }

  void read(std::uint32_t number) { tier->read({key_of(number), nullptr, number}, now); }

  disk_tier_events& poll() {
    events = {};
    tier->poll(now, unix_s, events);
    return events;
  }

  /// Writes the pages with the numbers [first, first + count), and polls after each write. `events`
  /// then has the events of the last poll only.
  void store_pages(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = first; i < first + count; ++i) {
      ASSERT_EQ(write(i), write_skip::none);
      poll();
    }
  }

  disk_tier_options options;
  std::optional<disk_tier> tier;
  scripted_store* store = nullptr;
  disk_tier_events events;
  when now{1h};
  std::uint64_t unix_s = 1000;
};

} // namespace peercache::storage::tier_test
