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
  closed,    ///< The reader closed it, or its host is gone.
  violation, ///< Said what the protocol does not allow.
  no_ready,  ///< Half open for too long.
  stalled,   ///< Took no byte for too long.
  idle,      ///< No READ for too long.
  replaced,  ///< A newer incarnation of the reader came.
  rail_down
};
inline constexpr std::size_t session_ends = 7;

struct verbs_rail_stats {
  bool serving = true;
  std::string why_not; ///< Why the rail is down ("port down"); empty while it serves.

  std::uint32_t sessions = 0;   ///< Queue pairs now.
  std::uint32_t half_open = 0;  ///< Sessions without the reader's ready message.
  std::uint64_t hellos = 0;     ///< Handed over, ever.
  std::uint64_t left_early = 0; ///< Gone before their turn came.
  std::array<std::uint64_t, verbs_verdicts> verdicts{}; ///< Hellos, by `verbs_verdict`.
  std::uint64_t established = 0;                        ///< Ever.
  std::array<std::uint64_t, session_ends> ended{};      ///< Sessions that ended, by `session_end`.
  std::uint64_t queue_pairs_failed = 0;                 ///< Pairs not made, or not connected.
  std::string queue_pair_failure;                       ///< The last one's text.
  std::uint64_t device_events = 0;
  std::string device_event; ///< The last one's name.
  region_progress regions;
};

/// One reading process, as the sessions that it has now.
struct verbs_reader_stats {
  std::string name;
  incarnation reader;
  std::uint32_t sessions = 0;
};

} // namespace peercache::rdma
