#pragma once

#include "common/result.hpp"
#include "handoff_board.hpp"
#include "handoff_plan.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <sys/types.h>
#include <vector>

namespace peercache::handoff_stress {

/// Starts the ranks as processes of their own, gives them rooms, lets faults happen to them, and
/// reports the results. Threads: one; the process must never have had others, because this class
/// forks. Ownership: owns the processes, which end with this object, or with this process however
/// it ends.
class handoff_router {
public:
  using clock = std::chrono::steady_clock;

  explicit handoff_router(const handoff_plan& plan);
  ~handoff_router();
  handoff_router(const handoff_router&) = delete;
  handoff_router& operator=(const handoff_router&) = delete;

  void run();
  nlohmann::json report() const;
  /// Whether the run has found no fault.
  bool good() const;

private:
  struct process {
    pid_t pid = -1;
    /// When a frozen rank's process is woken; zero: the process is not frozen.
    clock::time_point frozen_until{};
  };
  /// Resources of a process, all its threads included.
  struct footprint {
    std::uint64_t descriptors = 0, rss_kib = 0;
  };
  struct posted_room {
    std::uint64_t serial = 0;
    clock::time_point at;
    /// When the router first saw that the room had failed at a rank.
    clock::time_point failed_at{};
  };

  void start_rank(std::uint32_t rank);
  bool step_rooms(clock::time_point now);
  bool has_ended(std::uint32_t cell) const;
  void account(std::uint32_t cell);
  void post(std::uint32_t cell, clock::time_point now);
  void end_late(std::uint32_t cell, clock::time_point now);
  bool is_over(clock::time_point now) const;
  void step_faults(clock::time_point now);
  void kill_one();
  void freeze_one(clock::time_point now);
  void wake(clock::time_point now);
  void check_processes();
  void finish();
  bool wait_for_idle();
  std::vector<footprint> footprints() const;
  std::uint64_t sum(std::atomic<std::uint64_t> rank_cell::*counter) const;
  std::uint64_t found() const;
  bool flat() const;
  bool worked() const;

  const handoff_plan plan_;
  handoff_board* const board_;
  std::array<process, ranks_max> processes_{};
  std::array<posted_room, cells_max> posted_{};
  std::mt19937_64 random_;
  std::uint64_t next_serial_ = 1, ended_ = 0, succeeded_ = 0;
  std::uint64_t kills_ = 0, freezes_ = 0;
  /// Serial of the first room that was posted after the last fault; and whether a room from there
  /// on has succeeded.
  std::uint64_t after_fault_ = 0;
  bool works_again_ = true;
  clock::time_point begun_, next_fault_, fault_at_, ended_at_;
  std::vector<footprint> at_begin_, at_end_;
  std::string broken_; ///< Why the run could not go on; empty if it could.
};

} // namespace peercache::handoff_stress
