#include "handoff/distinct_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

namespace peercache::handoff {
namespace {

using testing::ElementsAre;
using testing::Pair;

kv_buffer at(std::uint64_t address, std::uint64_t bytes) {
  kv_buffer buffer;
  buffer.address = address;
  buffer.length_bytes = bytes;
  buffer.item_bytes = 1;
  return buffer;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> memory_of(const kv_layout& layout) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  for (const auto& each : distinct_memory(layout))
    all.emplace_back(reinterpret_cast<std::uintptr_t>(each.data()), each.size());
  return all;
}

TEST(distinct_memory, is_by_address_and_that_of_kv_states_and_aux) {
  kv_layout layout;
  layout.buffers = {at(0x9000, 0x100), at(0x1000, 0x100)};
  layout.states.resize(1);
  layout.states[0].tensors.resize(1);
  layout.states[0].tensors[0].buffer = at(0x5000, 0x20);
  layout.aux = {at(0x3000, 0x40)};
  EXPECT_THAT(memory_of(layout), ElementsAre(Pair(0x1000, 0x100), Pair(0x3000, 0x40),
                                             Pair(0x5000, 0x20), Pair(0x9000, 0x100)));
}

TEST(distinct_memory, that_is_named_twice_is_one_piece) {
  kv_layout layout;
  layout.buffers = {at(0x1000, 0x100), at(0x1000, 0x100), at(0x1040, 0x20)};
  EXPECT_THAT(memory_of(layout), ElementsAre(Pair(0x1000, 0x100)));
}

TEST(distinct_memory, that_overlaps_is_one_piece_and_that_only_touches_is_two) {
  kv_layout layout;
  layout.buffers = {at(0x1000, 0x100), at(0x1080, 0x100), at(0x1180, 0x10)};
  EXPECT_THAT(memory_of(layout), ElementsAre(Pair(0x1000, 0x180), Pair(0x1180, 0x10)));
}

} // namespace
} // namespace peercache::handoff
