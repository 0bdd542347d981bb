#include "tests/client/handoff/transfer_rig.hpp"

#include "tests/client/handoff/worker_rig.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace peercache::client::test {

transfer_engine::transfer_engine(std::size_t bytes) : memory(bytes) {
  auto started = transfer_worker::start(tcp_options());
  EXPECT_TRUE(started) << started.error().message;
  worker = std::move(*started);
  const auto registered = worker->register_memory(all());
  EXPECT_TRUE(registered) << registered.error().message;
}

std::uint64_t transfer_engine::at(std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
}

transfer_outcome transfer_engine::call(handoff::transfer_direction direction,
                                       const transfer_engine& with,
                                       std::vector<handoff::transfer_piece> pieces,
                                       std::chrono::nanoseconds timeout) {
  const auto id = worker->begin(direction, with.address(), std::move(pieces), timeout);
  return id ? worker->wait(*id) : transfer_outcome{handoff::call_state::failed, id.error().message};
}

void transfer_engine::fill(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::generate(memory.begin(), memory.end(), [&] { return static_cast<std::byte>(random()); });
}

bool transfer_engine::is_filled_with(std::byte value) const {
  return std::all_of(memory.begin(), memory.end(), [value](auto each) { return each == value; });
}

} // namespace peercache::client::test
