#include "tests/fakes/memory_disk_io.hpp"

#include "tests/storage/disk/io/disk_io_rig.hpp"

#include <algorithm>
#include <cerrno>

namespace peercache::storage {
namespace {

using kind = disk_request::kind;
using std::chrono::milliseconds;
constexpr std::uint32_t block = disk_block_bytes;

class memory_disk : public testing::Test {
protected:
  explicit memory_disk(const memory_disk_options& options = {}) : io(options), driver(io) {}

  std::vector<disk_completion> reap() {
    std::vector<disk_completion> done;
    driver.reap(done);
    return done;
  }

  memory_disk_io io;
  disk_io_driver driver;
  block_memory memory{64 * block};
};

TEST_F(memory_disk, a_request_completes_at_the_next_reap_when_nothing_delays_it) {
  const auto file = *io.create("a", block);
  ASSERT_TRUE(io.submit(disk_io_driver::request(kind::read, file, 0, memory.part(0, block), 3)));
  const auto done = reap();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 3u);
}

TEST_F(memory_disk, a_delayed_request_completes_when_its_time_has_come_and_a_wait_goes_there) {
  const auto file = *io.create("a", block);
  io.set_delay(disk_operation::read, milliseconds(500));
  const auto read = disk_io_driver::request(kind::read, file, 0, memory.part(0, block));
  ASSERT_TRUE(io.submit(read));
  EXPECT_TRUE(reap().empty());
  io.advance(milliseconds(499));
  EXPECT_TRUE(reap().empty());
  io.advance(milliseconds(1));
  EXPECT_EQ(reap().size(), 1u);
  ASSERT_TRUE(io.submit(read));
  io.wait(milliseconds(200));
  EXPECT_EQ(io.now(), milliseconds(700));
  EXPECT_TRUE(reap().empty());
  io.wait(std::chrono::hours(1));
  EXPECT_EQ(io.now(), milliseconds(1000));
  EXPECT_EQ(reap().size(), 1u);
}

TEST_F(memory_disk, a_hanging_disk_completes_nothing_until_it_does) {
  const auto file = *io.create("a", block);
  io.set_hanging(true);
  ASSERT_TRUE(io.submit(disk_io_driver::request(kind::read, file, 0, memory.part(0, block))));
  io.wait(std::chrono::hours(1));
  EXPECT_TRUE(reap().empty());
  EXPECT_EQ(io.in_flight(), 1u);
  io.set_hanging(false);
  EXPECT_EQ(reap().size(), 1u);
}

std::vector<std::uint64_t> order_of_completions(std::uint64_t seed, bool reorder) {
  memory_disk_options options;
  options.seed = seed;
  options.reorder = reorder;
  memory_disk_io io(options);
  disk_io_driver driver(io);
  const block_memory memory(32 * block);
  const auto file = *io.create("a", block);
  std::vector<disk_request> reads;
  for (std::uint32_t i = 0; i < 32; ++i)
    reads.push_back(disk_io_driver::request(kind::read, file, 0, memory.part(i * block, block), i));
  std::vector<std::uint64_t> order;
  for (const auto& done : driver.all(reads))
    order.push_back(done.tag);
  return order;
}

TEST(memory_disk_order, is_the_seeds_or_that_of_submission) {
  EXPECT_EQ(order_of_completions(1, true), order_of_completions(1, true));
  EXPECT_NE(order_of_completions(1, true), order_of_completions(2, true));
  const auto in_order = order_of_completions(1, false);
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
}

TEST_F(memory_disk, the_chosen_operation_fails_and_no_other) {
  const auto file = *io.create("a", 4 * block);
  io.fail_once(disk_operation::write, 2, ENOSPC);
  std::vector<int> errors;
  for (int i = 0; i < 5; ++i)
    errors.push_back(driver.write(file, 0, memory.part(0, block)));
  EXPECT_EQ(errors, (std::vector<int>{0, 0, ENOSPC, 0, 0}));
  io.fail_once(disk_operation::metadata, 1, EIO);
  EXPECT_TRUE(io.create("b", block));
  EXPECT_EQ(io.create("c", block).error().code, errc::io_failed);
  EXPECT_TRUE(io.create("c", block)) << "the failed one left no file";
  io.fail_once(disk_operation::sync, 0, EIO);
  EXPECT_FALSE(io.sync_folder(""));
  EXPECT_EQ(driver.sync(file), 0);
}

TEST_F(memory_disk, a_share_of_the_operations_fails) {
  const auto file = *io.create("a", 4 * block);
  io.fail_share(disk_operation::read, 0.2, EIO);
  int failed = 0;
  for (int i = 0; i < 1000; ++i)
    failed += driver.read(file, 0, memory.part(0, block)) == EIO;
  EXPECT_GT(failed, 130);
  EXPECT_LT(failed, 270);
  EXPECT_EQ(driver.write(file, 0, memory.part(0, block)), 0);
}

TEST_F(memory_disk, everything_fails_until_it_is_healed) {
  const auto file = *io.create("a", 4 * block);
  io.fail_all(EIO);
  EXPECT_EQ(driver.read(file, 0, memory.part(0, block)), EIO);
  EXPECT_EQ(driver.write(file, 0, memory.part(0, block)), EIO);
  EXPECT_EQ(driver.sync(file), EIO);
  EXPECT_FALSE(io.open("a"));
  EXPECT_FALSE(io.list(""));
  EXPECT_FALSE(io.read_now("a", 0, memory.part(0, 1)));
  EXPECT_FALSE(io.remove("a"));
  io.heal();
  EXPECT_EQ(driver.read(file, 0, memory.part(0, block)), 0);
  EXPECT_TRUE(io.list(""));
}

TEST_F(memory_disk, a_failed_read_leaves_noise_in_memory_and_a_failed_write_a_part_of_itself) {
  const auto file = *io.create("a", 64 * block);
  const block_memory before(64 * block);
  io.fail_all(EIO);
  EXPECT_EQ(driver.read(file, 0, memory.all()), EIO);
  EXPECT_FALSE(same(memory.all(), before.all()));
  memory.fill(1);
  EXPECT_EQ(driver.write(file, 0, memory.all()), EIO);
  const auto left = io.contents("a");
  EXPECT_FALSE(same(left, before.all()));
  EXPECT_FALSE(same(left, memory.all()));
}

TEST_F(memory_disk, a_full_disk_takes_neither_files_nor_longer_ones_and_gives_room_back) {
  io.set_capacity(10 * block);
  const auto a = *io.create("a", 4 * block);
  EXPECT_EQ(io.create("b", 7 * block).error().code, errc::out_of_space);
  EXPECT_TRUE(io.files() == std::vector<std::string>{"a"});
  const auto b = *io.create("b", 5 * block);
  EXPECT_EQ(io.space()->free_bytes, block);
  EXPECT_EQ(driver.write(a, 4 * block, memory.part(0, 2 * block)), ENOSPC);
  EXPECT_EQ(driver.write(a, 4 * block, memory.part(0, block)), 0);
  EXPECT_EQ(io.space()->free_bytes, 0u);
  EXPECT_EQ(io.truncate(a, 6 * block).error().code, errc::out_of_space);
  ASSERT_TRUE(io.truncate(b, block));
  EXPECT_EQ(io.space()->free_bytes, 4 * block);
  ASSERT_TRUE(io.rename("a", "b"));
  EXPECT_EQ(io.space()->free_bytes, 5 * block);
  ASSERT_TRUE(io.remove("b"));
  EXPECT_EQ(io.space()->free_bytes, 10 * block);
  ASSERT_TRUE(io.truncate(a, 8 * block));
  EXPECT_EQ(io.space()->free_bytes, 10 * block) << "a file without a name does not count";
}

TEST_F(memory_disk, who_changes_memory_that_is_being_written_is_found_out) {
  const auto file = *io.create("a", block);
  ASSERT_TRUE(io.submit(disk_io_driver::request(kind::write, file, 0, memory.part(0, block))));
  memory.data()[100] ^= std::byte{1};
  EXPECT_DEATH(reap(), "same_as");
  memory.data()[100] ^= std::byte{1};
  EXPECT_EQ(reap().size(), 1u);
}

TEST_F(memory_disk, what_lies_on_it_can_be_damaged) {
  const auto a = *io.create("a", 2 * block);
  const auto b = *io.create("b", 2 * block);
  memory.fill(1);
  ASSERT_EQ(driver.write(a, 0, memory.part(0, 2 * block)), 0);
  ASSERT_EQ(driver.write(b, 0, memory.part(4 * block, 2 * block)), 0);
  const auto of_a = io.contents("a");
  const auto of_b = io.contents("b");

  io.flip_bit("a", block + 7, 3);
  auto flipped = of_a;
  flipped[block + 7] ^= std::byte{8};
  EXPECT_EQ(io.contents("a"), flipped);
  io.flip_bit("a", block + 7, 3);

  io.swap_ranges("a", 10, "b", 5000, 3000);
  auto swapped = of_a;
  std::copy_n(of_b.begin() + 5000, 3000, swapped.begin() + 10);
  EXPECT_EQ(io.contents("a"), swapped);
  io.swap_ranges("a", 10, "b", 5000, 3000);
  EXPECT_EQ(io.contents("b"), of_b);

  io.swap_files("a", "b");
  EXPECT_EQ(io.contents("a"), of_b);
  const block_memory read(2 * block);
  ASSERT_EQ(driver.read(*io.open("b"), 0, read.all()), 0);
  EXPECT_TRUE(same(read.all(), of_a));
}

} // namespace
} // namespace peercache::storage
