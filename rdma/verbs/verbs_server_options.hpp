#pragma once

#include "common/ids.hpp"
#include "common/slot_entry.hpp"
#include "rdma/memory_rows.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace peercache::rdma {

/// Options of the serving side of one rail. Threads: a rail's server copies them; each function
/// says which threads call it. The calls of one function come one at a time; they must neither
/// block nor call the server. Lifetime: what the functions refer to outlives the server.
struct verbs_server_options {
  std::string cluster;
  incarnation inc;
  std::string node;       ///< Name of this node for the readers' logs and metrics.
  std::uint8_t rail = 0;  ///< Index of this rail among the rails of the node.
  std::uint8_t rails = 1; ///< How many rails the node has.
  verbs::path_options path;
  /// Whether each reader is told keys of its own: memory windows that are bound to its queue pair
  /// and end with it. The keys of the regions open nothing then.
  bool windows = false;
  /// Length of the chunks in which the pool is registered; a multiple of 2 MiB.
  std::uint64_t chunk_bytes = 1u << 30;
  /// Called with the number of chunks that are done and the number of all chunks, from the threads
  /// that register; see region_registry::callbacks::on_progress.
  std::function<void(std::uint32_t done, std::uint32_t total)> on_registered;
  /// Called with the reason why a part of the pool cannot be READ over this rail, from a thread
  /// that registers; see region_registry::callbacks::on_failure.
  std::function<void(const std::string& why)> on_not_registered;
  /// Called from the rail's thread with the reason why a reader cannot have a memory window; once
  /// a minute at most.
  std::function<void(const std::string& why)> on_no_window;

  std::uint32_t sessions_max = 4096; ///< Sessions, each with a queue pair, at most.
  /// Sessions whose reader has not sent its ready message, at most.
  std::uint32_t half_open_max = 1024;
  /// Connections that were handed to this rail and not looked at yet, at most.
  std::uint32_t inbox_max = 1024;
  std::uint32_t hellos_per_turn = 64; ///< Hellos that one `poll` looks at, at most.
  /// Most queue pairs that are asked per turn whether a READ has come; see `idle_timeout`.
  std::uint32_t looks_per_turn = 32;

  /// Longest time from the hello to the ready message.
  std::chrono::milliseconds hello_timeout{2000};
  /// How long a reader's answer waits, at most, from the first of its windows on for those of all
  /// chunks that are served by then. Readers get windows one after the other.
  std::chrono::milliseconds windows_wait{200};
  /// How long an answer waits for windows at most, from when the connection was accepted, before
  /// any handshake of TLS: less than the connect time-out of readers (channel_options), which runs
  /// from a moment before. A reader that has no window by then is told `busy`.
  std::chrono::milliseconds answer_wait{430};
  /// How long a reader may take no byte before its session ends; also how long the
  /// bindings of its windows may stand still.
  std::chrono::milliseconds send_timeout{2000};
  /// How long a session may have no READ before it ends; its queue pair is asked a few times within
  /// this time. Well above the time after which a reader closes its idle channels itself.
  std::chrono::milliseconds idle_timeout{300'000};
  /// How often the reader's host is asked whether it lives (TCP keep-alive).
  std::chrono::seconds keep_alive{2};
};

/// The memory that a rail serves from its start: a pool, or the table of leases of memory that is
/// added later (`span_registry`). Ownership: lent; outlives the rail.
struct served_region {
  std::span<std::byte> region; ///< First the table of entries, then the pages of a pool.
  /// The first page of a pool; null: the region is a table of leases.
  const std::byte* pages = nullptr;
  std::uint32_t granules = 0; ///< Number of entries of the table.

  static served_region leases(std::span<slot_entry> table) noexcept {
    return {std::as_writable_bytes(table), nullptr, static_cast<std::uint32_t>(table.size())};
  }
  data_service service() const noexcept {
    return pages != nullptr ? data_service::pool : data_service::handoff;
  }
};

} // namespace peercache::rdma
