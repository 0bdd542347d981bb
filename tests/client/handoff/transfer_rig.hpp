#pragma once

#include "client/handoff/transfer_worker.hpp"
#include "handoff/links/worker_links.hpp"
#include "tests/client/handoff/worker_rig.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace peercache::client::test {

/// A transfer worker over TCP, and memory that is registered with it.
struct transfer_engine {
  explicit transfer_engine(std::size_t bytes, const worker_options& options = tcp_options());

  std::uint64_t at(std::size_t offset) const;
  handoff::memory_range all() const { return {at(0), memory.size()}; }
  handoff::worker_address address() const { return {"127.0.0.1", worker->port()}; }
  /// Transfers these pieces to or from the engine `with`, and waits for the outcome.
  transfer_outcome call(handoff::transfer_direction direction, const transfer_engine& with,
                        std::vector<handoff::transfer_piece> pieces,
                        std::chrono::nanoseconds timeout = std::chrono::seconds(30));
  void fill(std::uint32_t seed);
  bool is_filled_with(std::byte value) const;

  std::vector<std::byte> memory;
  /// Declared after the memory, so that the worker ends first.
  std::unique_ptr<transfer_worker> worker;
};

/// A transfer engine that accepts connections, and answers no request.
class mute_engine {
public:
  mute_engine();
  ~mute_engine();
  mute_engine(const mute_engine&) = delete;
  mute_engine& operator=(const mute_engine&) = delete;

  handoff::worker_address address() const { return {"127.0.0.1", links_->port()}; }
  /// Returns how many writes this engine was asked to carry out, by reading from the caller.
  std::size_t writes() const noexcept { return writes_.load(); }

private:
  void run();

  std::unique_ptr<handoff::worker_links> links_;
  std::atomic<std::size_t> writes_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::client::test
