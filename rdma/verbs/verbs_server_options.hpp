#pragma once

#include "common/ids.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace peercache::rdma {

/// The serving side of one rail.
struct verbs_server_options {
  std::string cluster;
  incarnation inc;
  std::string node;       ///< Name for the readers' logs and metrics.
  std::uint8_t rail = 0;  ///< Index of this rail in the node.
  std::uint8_t rails = 1; ///< How many rails the node has.
  verbs::path_options path;
  /// The pool is registered in such chunks; multiple of 2 MiB.
  std::uint64_t chunk_bytes = 1u << 30;
  /// Chunks done and in all; from the threads that register, see region_registry.
  std::function<void(std::uint32_t done, std::uint32_t total)> on_registered;
  /// Why a part of the pool cannot be read over this rail; likewise.
  std::function<void(const std::string& why)> on_not_registered;

  std::uint32_t sessions_max = 4096;  ///< Queue pairs.
  std::uint32_t half_open_max = 1024; ///< Sessions without the reader's ready message.
  std::uint32_t inbox_max = 1024;     ///< Handed over and not looked at yet.
  std::uint32_t hellos_per_turn = 64; ///< Looked at in one `poll`.
  std::uint32_t looks_per_turn = 32;  ///< Queue pairs asked for reads, see `idle_timeout`.

  std::chrono::milliseconds hello_timeout{2000}; ///< Time from the hello to the ready message.
  std::chrono::milliseconds send_timeout{2000};  ///< How long the reader may take no byte.
  /// How long a session may have no READ; the queue pair is asked a few times meanwhile. Well above
  /// the time after which a reader closes its idle channels itself.
  std::chrono::milliseconds idle_timeout{300'000};
  std::chrono::seconds keep_alive{2}; ///< The reader's host is asked so often whether it lives.
};

/// The memory that a rail serves. Ownership: the pool's; outlives the rail.
struct served_pool {
  std::span<std::byte> region; ///< First the slot table, then the pages.
  const std::byte* pages = nullptr;
  std::uint32_t granules = 0;
};

} // namespace peercache::rdma
