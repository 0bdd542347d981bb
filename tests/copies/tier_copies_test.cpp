// Tests that the disk tier copies no page between its caller's memory and the device.

#include "common/checksum.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/disk_tier.hpp"
#include "storage/disk/offset/offset_index.hpp"
#include "tests/copies/copied_bytes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace peercache::storage {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t page_bytes = 256u << 10;
constexpr std::uint32_t pages = 32;

struct free_memory {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using page_memory = std::unique_ptr<std::byte, free_memory>;

page_memory allocate() {
  return page_memory(static_cast<std::byte*>(
      std::aligned_alloc(disk_block_bytes, std::size_t{pages} * page_bytes)));
}

page_key key_of(std::uint32_t number) {
  page_key key;
  std::memcpy(key.bytes.data(), &number, sizeof number);
  return key;
}

class no_copy : public testing::TestWithParam<std::string> {
protected:
  no_copy() : folder_(std::filesystem::current_path() / ("no-copy-" + std::to_string(::getpid()))) {
    auto opened = open_disk(folder_.string(), 64);
    EXPECT_TRUE(opened) << opened.error().message;
    io_ = std::move(opened->io);
    disk_tier_options options;
    options.size_bytes = store_options().size_bytes;
    options.scrub_bytes_per_s = 0;
    tier_.emplace(make_store(), options);
    EXPECT_TRUE(tier_->recover({}, [](const disk_page&) {}));
  }

  ~no_copy() override {
    copies::watch({});
    disk_tier_events events;
    tier_->close(5s, events);
    tier_.reset();
    io_.reset();
    std::filesystem::remove_all(folder_);
  }

  static disk_store_options store_options() {
    disk_store_options options;
    options.owner = {1, 2};
    options.size_bytes = 256u << 20;
    options.bucket_bytes = 16u << 20;
    return options;
  }

  std::unique_ptr<disk_store> make_store() {
    if (GetParam() == "bucket")
      return make_bucket_store(*io_, store_options());
    if (GetParam() == "file_per_key")
      return make_file_store(*io_, store_options());
    auto index = open_rocks_index((folder_ / "index").string());
    EXPECT_TRUE(index);
    return make_offset_store(*io_, store_options(), std::move(*index));
  }

  /// Runs the tier until `wanted` events have come; expects that all report success.
  void run(std::uint32_t wanted) {
    const auto until = disk_clock::now() + 60s;
    for (std::uint32_t came = 0; came < wanted;) {
      ASSERT_LT(disk_clock::now(), until);
      std::array<disk_completion, 64> done;
      const auto count = io_->reap(done);
      tier_->on_completions(*io_, {done.data(), count});
      disk_tier_events events;
      tier_->poll(disk_clock::now(), 1000, events);
      for (const auto& event : events.done)
        ASSERT_EQ(event.status, disk_status::ok);
      came += static_cast<std::uint32_t>(events.done.size());
      if (count == 0 && events.empty())
        io_->wait(1ms);
    }
  }

  const std::filesystem::path folder_;
  std::unique_ptr<disk_io> io_;
  std::optional<disk_tier> tier_;
};

TEST_P(no_copy, no_page_byte_is_copied_on_its_way_to_disk_and_back) {
  constexpr auto bytes = std::size_t{pages} * page_bytes;
  const auto written = allocate();
  const auto read = allocate();
  for (std::size_t i = 0; i < bytes; ++i)
    written.get()[i] = static_cast<std::byte>(i * 31 >> 8);
  std::vector<std::uint64_t> checksums;
  for (std::uint32_t i = 0; i < pages; ++i)
    checksums.push_back(checksum_of({written.get() + i * page_bytes, page_bytes}));
  copies::watch({written.get(), bytes}, {read.get(), bytes});
  for (std::uint32_t i = 0; i < pages; ++i)
    ASSERT_EQ(
        tier_->write({key_of(i), {2}, checksums[i], written.get() + i * page_bytes, page_bytes, i},
                     disk_clock::now()),
        write_skip::none);
  run(pages);
  EXPECT_EQ(copies::take_copied_bytes(), 0u) << "to disk";
  for (std::uint32_t i = 0; i < pages; ++i)
    tier_->read({key_of(i), read.get() + i * page_bytes, i}, disk_clock::now());
  run(pages);
  EXPECT_EQ(copies::take_copied_bytes(), 0u) << "and back";
  EXPECT_EQ(std::memcmp(written.get(), read.get(), bytes), 0);
  // Checks that the watch works, by a copy of one byte of each watched memory.
  std::byte seen{};
  const volatile std::size_t one = 1; // A known length may be copied without a call of memcpy.
  std::memcpy(&seen, written.get() + bytes - 1, one);
  std::memcpy(read.get(), &seen, one);
  EXPECT_EQ(copies::take_copied_bytes(), 2u);
}

TEST(no_copy_counter, counts_what_is_copied) {
  std::vector<std::byte> from(page_bytes), to(page_bytes);
  copies::watch(from);
  const volatile std::size_t bytes =
      page_bytes; // A known length may be copied without a call of memcpy.
  std::memcpy(to.data(), from.data(), bytes);
  EXPECT_EQ(copies::take_copied_bytes(), page_bytes);
}

INSTANTIATE_TEST_SUITE_P(with, no_copy, testing::Values("bucket", "file_per_key", "offset"),
                         [](const auto& info) { return info.param; });

} // namespace
} // namespace peercache::storage
