#include "tests/client/handoff/transfer_rig.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace peercache::client::test {

transfer_engine::transfer_engine(std::size_t bytes, const worker_options& options) : memory(bytes) {
  auto started = transfer_worker::start(options);
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
  // All bytes are `value` if the first one is and each byte equals the one before it. A loop over
  // the bytes would take seconds in tests, which are not optimized.
  return memory.front() == value &&
         std::memcmp(memory.data(), memory.data() + 1, memory.size() - 1) == 0;
}

mute_engine::mute_engine() {
  handoff::hello self;
  self.side = handoff::engine_side::transfer;
  self.process = incarnation::random();
  self.cluster = tcp_options().cluster;
  self.data_port = 1; // Nobody connects to this port.
  self.data_host = "127.0.0.1";
  auto listening = handoff::worker_links::listen({}, self);
  EXPECT_TRUE(listening) << listening.error().message;
  links_ = std::move(*listening);
  thread_ = std::thread([this] { run(); });
}

mute_engine::~mute_engine() {
  stop_.store(true);
  links_->wake();
  thread_.join();
}

void mute_engine::run() {
  while (!stop_.load()) {
    for (const auto& event : links_->poll(std::chrono::steady_clock::now()))
      if (const auto* said = std::get_if<handoff::peer_said>(&event))
        writes_ += std::holds_alternative<handoff::transfer_write>(said->what) ? 1 : 0;
    links_->wait(std::chrono::steady_clock::now(), std::chrono::milliseconds(100));
  }
}

} // namespace peercache::client::test
