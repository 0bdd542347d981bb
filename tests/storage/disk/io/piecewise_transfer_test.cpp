#include "storage/disk/io/piecewise_transfer.hpp"

#include <gtest/gtest.h>

namespace peercache::storage {
namespace {

alignas(disk_block_bytes) std::byte memory[4 * disk_block_bytes];

piecewise_transfer transfer(disk_request::kind what) {
  return piecewise_transfer(
      {what, disk_file{1}, 100 * disk_block_bytes, memory, 4 * disk_block_bytes, 9});
}

TEST(piecewise_transfer, is_done_when_all_bytes_have_moved) {
  EXPECT_EQ(transfer(disk_request::kind::read).on_result(4 * disk_block_bytes), 0);
}

TEST(piecewise_transfer, goes_on_where_a_short_one_ended) {
  auto what = transfer(disk_request::kind::write);
  EXPECT_EQ(what.on_result(disk_block_bytes), std::nullopt);
  EXPECT_EQ(what.memory(), memory + disk_block_bytes);
  EXPECT_EQ(what.offset_bytes(), 101u * disk_block_bytes);
  EXPECT_EQ(what.bytes(), 3 * disk_block_bytes);
  EXPECT_EQ(what.on_result(2 * disk_block_bytes), std::nullopt);
  EXPECT_EQ(what.memory(), memory + 3 * disk_block_bytes);
  EXPECT_EQ(what.on_result(disk_block_bytes), 0);
}

TEST(piecewise_transfer, does_again_the_block_that_it_got_a_part_of) {
  auto what = transfer(disk_request::kind::read);
  EXPECT_EQ(what.on_result(2 * disk_block_bytes + 512), std::nullopt);
  EXPECT_EQ(what.offset_bytes(), 102u * disk_block_bytes);
  EXPECT_EQ(what.bytes(), 2 * disk_block_bytes);
}

TEST(piecewise_transfer, fails_when_the_file_ends_before_it) {
  EXPECT_EQ(transfer(disk_request::kind::read).on_result(0), EIO);
  auto what = transfer(disk_request::kind::read);
  EXPECT_EQ(what.on_result(3 * disk_block_bytes), std::nullopt);
  EXPECT_EQ(what.on_result(100), EIO);
}

TEST(piecewise_transfer, fails_with_the_devices_reason) {
  auto what = transfer(disk_request::kind::write);
  EXPECT_EQ(what.on_result(disk_block_bytes), std::nullopt);
  EXPECT_EQ(what.on_result(-ENOSPC), ENOSPC);
  EXPECT_EQ(transfer(disk_request::kind::sync).on_result(-EIO), EIO);
}

TEST(piecewise_transfer, is_tried_again_when_interrupted_but_not_for_ever) {
  auto what = transfer(disk_request::kind::read);
  int tries = 0;
  for (std::optional<int> done; !done; ++tries) {
    ASSERT_LT(tries, 1000);
    done = what.on_result(tries % 2 == 0 ? -EINTR : -EAGAIN);
    if (done) {
      EXPECT_EQ(*done, EIO);
    }
  }
  EXPECT_GT(tries, 10);
}

TEST(piecewise_transfer, a_device_that_moves_more_than_asked_is_not_believed) {
  EXPECT_EQ(transfer(disk_request::kind::read).on_result(5 * disk_block_bytes), EIO);
}

TEST(piecewise_transfer, a_head_goes_before_its_memory) {
  auto request = transfer(disk_request::kind::write).request();
  request.head = memory + 3 * disk_block_bytes;
  request.bytes = 3 * disk_block_bytes;
  piecewise_transfer what(request);
  EXPECT_EQ(what.head(), request.head);
  EXPECT_EQ(what.memory(), memory);
  EXPECT_EQ(what.bytes(), 3 * disk_block_bytes);
  EXPECT_EQ(what.on_result(disk_block_bytes), std::nullopt);
  EXPECT_EQ(what.head(), nullptr);
  EXPECT_EQ(what.memory(), memory);
  EXPECT_EQ(what.bytes(), 3 * disk_block_bytes);
  EXPECT_EQ(what.offset_bytes(), 101 * disk_block_bytes);
  EXPECT_EQ(what.on_result(2 * disk_block_bytes), std::nullopt);
  EXPECT_EQ(what.memory(), memory + 2 * disk_block_bytes);
  EXPECT_EQ(what.on_result(disk_block_bytes), 0);
  EXPECT_EQ(piecewise_transfer(request).on_result(4 * disk_block_bytes), 0);
  EXPECT_EQ(piecewise_transfer(request).on_result(512), EIO);
  EXPECT_EQ(piecewise_transfer(request).on_result(5 * disk_block_bytes), EIO);
}

TEST(piecewise_transfer, a_sync_moves_nothing) {
  EXPECT_EQ(transfer(disk_request::kind::sync).on_result(0), 0);
}

} // namespace
} // namespace peercache::storage
