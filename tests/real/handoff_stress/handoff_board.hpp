#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace peercache::handoff_stress {

inline constexpr std::uint32_t ranks_max = 4;
inline constexpr std::uint32_t cells_max = 64;

enum class outcome : std::uint8_t { none, success, failed, killed };

/// Why a room has failed at a rank, as far as it matters to a report.
enum class cause : std::uint8_t {
  aborted_here,
  aborted_there,
  other_rank,
  lost,
  read_failed,
  timed_out,
  other
};
inline constexpr std::uint32_t cause_count = 7;

/// One of the rooms that are open at a time, as the router tells all ranks of it. A rank that finds
/// another serial than before begins that room; when it has cleared the room it says how it ended.
struct room_cell {
  std::atomic<std::uint64_t> serial{0};
  std::array<std::atomic<outcome>, ranks_max> ended{};
  /// For each engine, whether one of its ranks has failed the room: its other ranks then end the
  /// room at once, and the other engine's ranks when the router says that the room's time is over.
  std::array<std::atomic<bool>, 2> engine_failed{};
  std::atomic<bool> time_is_over{false};
};

/// Report of a rank about itself. Counters go on when another process takes the rank's place.
struct rank_cell {
  std::atomic<std::uint16_t> port{0}; ///< Port of a prefill rank; 0: none listens now.
  std::atomic<bool> idle{false};      ///< The rank has seen `finish`, and has no room open.
  std::atomic<std::uint64_t> wrong_pages{0}, late_writes{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> rooms_left{0}; ///< Rooms, hence leases, of a rank that is idle.
  std::array<std::atomic<std::uint64_t>, cause_count> failures{};
};

/// What the router and the ranks share, in memory that the router maps before it forks the ranks.
/// Threads: any, of any of these processes.
struct handoff_board {
  std::array<room_cell, cells_max> rooms{};
  std::array<rank_cell, ranks_max> ranks{};
  std::atomic<bool> finish{false};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

} // namespace peercache::handoff_stress
