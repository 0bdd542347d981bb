#pragma once

#include "common/ids.hpp"
#include "rdma/verbs/region_registry.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache::rdma {

/// Why a session of a rail ended.
enum class session_end : std::uint8_t {
  closed,    ///< The reader closed the session, or its host is gone.
  violation, ///< The reader said what the protocol does not allow.
  no_ready,  ///< The reader did not send its ready message in time.
  stalled,   ///< The reader took no byte for too long.
  idle,      ///< No READ came for too long.
  replaced,  ///< A newer incarnation of the reader came.
  rail_down,
  memory_removed, ///< Memory that the reader was told of is no longer served.
  no_window       ///< A memory window could not be bound to its queue pair.
};
inline constexpr std::size_t session_ends = 9;

struct verbs_rail_stats {
  bool serving = true;
  std::string why_not; ///< Why the rail is down ("port down"); empty while it serves.

  std::uint32_t sessions = 0;  ///< Sessions now, each with a queue pair.
  std::uint32_t half_open = 0; ///< Sessions now whose reader has not sent its ready message.
  std::uint64_t hellos = 0; ///< Hellos that were handed over to this rail since the process began.
  /// Connections whose reader was gone before this rail looked at their hello.
  std::uint64_t left_early = 0;
  std::array<std::uint64_t, verbs_verdicts> verdicts{}; ///< Answers to hellos, by `verbs_verdict`.
  std::uint64_t established = 0; ///< Sessions that got the ready message, since the process began.
  std::array<std::uint64_t, session_ends> ended{}; ///< Sessions that ended, by `session_end`.
  /// Queue pairs that could not be made or connected.
  std::uint64_t queue_pairs_failed = 0;
  /// Text of the latest of these failures; empty when there was none.
  std::string queue_pair_failure;
  /// Memory windows that could not be made or bound, and readers that waited for one in vain.
  std::uint64_t windows_failed = 0;
  std::string window_failure; ///< Text of the latest of these failures; empty when none was.
  std::uint64_t device_events = 0;
  std::string device_event; ///< Name of the latest event of the device.
  region_progress regions;
  std::uint32_t area_chunks = 0; ///< Registered chunks of the areas beside the pool.
  std::uint64_t area_bytes = 0;
  /// Turns of the rail's thread in which something moved. READs move nothing, so the number stands
  /// still while readers do nothing but READ.
  std::uint64_t turns = 0;
};

/// A reading process, and how many sessions it has now.
struct verbs_reader_stats {
  std::string name;
  incarnation reader;
  std::uint32_t sessions = 0;
};

} // namespace peercache::rdma
