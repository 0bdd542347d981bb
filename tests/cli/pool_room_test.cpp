#include "cli/pool_room.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::pool_room_test {

namespace {

constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint64_t gib = 1u << 30;
constexpr pool_room plenty{64 * gib, 64 * gib};

std::string fault_of(std::uint64_t nodes, std::uint64_t pool_bytes, const pool_room& room) {
  auto fits = check_pools(nodes, pool_bytes, room);
  if (fits)
    return "fits";
  EXPECT_EQ(fits.error().code, errc::invalid_argument);
  return fits.error().message;
}

} // namespace

TEST(pool_room, pools_fit_up_to_the_last_byte) {
  EXPECT_EQ(fault_of(3, gib, {3 * gib, 3 * gib}), "fits");
  EXPECT_NE(fault_of(3, gib, {3 * gib - 1, 3 * gib}), "fits");
  EXPECT_NE(fault_of(3, gib, {3 * gib, 3 * gib - 1}), "fits");
}

TEST(pool_room, what_does_not_fit_is_told_with_what_there_is_and_where) {
  EXPECT_EQ(fault_of(3, 8 * gib, {23 * gib, 40 * gib}),
            "--pool-size: 3 pools of 8GiB each do not fit: this machine has 23.0 GiB of /dev/shm "
            "left; give a smaller --pool-size or fewer nodes");
  EXPECT_EQ(fault_of(1, 8 * gib, {64 * gib, 4 * gib}),
            "--pool-size: 1 pool of 8GiB does not fit: this machine has 4.0 GiB of memory left; "
            "give a smaller --pool-size");
}

TEST(pool_room, a_size_that_no_node_takes_is_told_with_its_bounds) {
  EXPECT_EQ(fault_of(3, std::uint64_t{64} << 40, plenty),
            "--pool-size: 64TiB is out of bounds: 1MiB to 8TiB is allowed");
  EXPECT_NE(fault_of(1, mib - 1, plenty), "fits");
}

TEST(pool_room, of_this_machine_is_known) {
  auto room = pool_room::of_machine();
  EXPECT_GT(room.memory_bytes, 0u);
  EXPECT_LT(room.memory_bytes, std::uint64_t{1} << 60) << "/proc/meminfo was read";
}

} // namespace peercache::cli::pool_room_test
