#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace peercache::handoff_stress {

inline constexpr std::uint32_t ranks_max = 4;
inline constexpr std::uint32_t cells_max = 64;

enum class outcome : std::uint8_t { none, success, failed, killed };

/// Why a room has failed at a rank, as reports tell it.
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

/// One of the rooms that are open at a time. The router posts a room to all ranks by its serial. A
/// rank that finds a new serial begins that room; when it has cleared the room, it writes how the
/// room has ended there into `ended`.
struct room_cell {
  std::atomic<std::uint64_t> serial{0};
  std::array<std::atomic<outcome>, ranks_max> ended{};
  /// For each engine, whether the room has failed at one of its ranks. Then the engine's other
  /// ranks end the room at once, and the ranks of the other engine when the router sets
  /// `time_is_over`.
  std::array<std::atomic<bool>, 2> engine_failed{};
  std::atomic<bool> time_is_over{false};
};

/// What a rank reports about itself. When a new process takes the rank's place, it goes on with
/// these counters.
struct rank_cell {
  std::atomic<std::uint16_t> port{0}; ///< Port of a prefill rank; 0: none listens now.
  std::atomic<bool> idle{false};      ///< Whether the rank has seen `finish` and has no open room.
  std::atomic<std::uint64_t> wrong_pages{0}, late_writes{0};
  std::atomic<std::uint64_t> bytes{0};
  /// Rooms, and so leases, that an idle rank's worker still has; must be 0.
  std::atomic<std::uint64_t> rooms_left{0};
  std::array<std::atomic<std::uint64_t>, cause_count> failures{};
};

/// What the router and the ranks share, in memory that the router maps before it forks the ranks.
/// Threads: any thread of these processes.
struct handoff_board {
  std::array<room_cell, cells_max> rooms{};
  std::array<rank_cell, ranks_max> ranks{};
  std::atomic<bool> finish{false};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

} // namespace peercache::handoff_stress
