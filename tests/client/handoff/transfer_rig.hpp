#pragma once

#include "client/handoff/transfer_worker.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace peercache::client::test {

/// A transfer worker over TCP, with memory that it has registered.
struct transfer_engine {
  explicit transfer_engine(std::size_t bytes);

  std::uint64_t at(std::size_t offset) const;
  handoff::memory_range all() const { return {at(0), memory.size()}; }
  handoff::worker_address address() const { return {"127.0.0.1", worker->port()}; }
  /// Calls the other engine, and waits.
  transfer_outcome call(handoff::transfer_direction direction, const transfer_engine& with,
                        std::vector<handoff::transfer_piece> pieces,
                        std::chrono::nanoseconds timeout = std::chrono::seconds(30));
  void fill(std::uint32_t seed);
  bool is_filled_with(std::byte value) const;

  std::vector<std::byte> memory;
  std::unique_ptr<transfer_worker> worker; ///< Ends before its memory does.
};

} // namespace peercache::client::test
