#pragma once

#include "handoff/room_state.hpp"
#include "handoff_board.hpp"
#include "handoff_plan.hpp"
#include "rank_memory.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace peercache::handoff_stress {

/// One rank of an engine: a process that takes rooms from the board, in order, and advances them as
/// an engine's scheduler does. This class has what prefill and decode ranks have in common; the
/// derived classes decide how a room goes on. Threads: only the thread that calls `run`.
class engine_rank {
public:
  using clock = std::chrono::steady_clock;

  /// @param rank index among all ranks, prefill's ranks before decode's
  /// @param begun rooms up to this serial were taken by an earlier process of this rank
  engine_rank(const handoff_plan& plan, handoff_board& board, std::uint32_t rank,
              std::uint64_t begun);
  virtual ~engine_rank() = default;

  /// Takes and steps rooms until the board says `finish` and no room is open.
  void run();

protected:
  struct open_room {
    std::uint64_t serial = 0;
    /// Whether there is no room here: the router has been told of the last room's end, or there was
    /// none.
    bool done = true;
    room_plan plan;
    std::optional<room_items> items; ///< Memory of the room, until this rank sees the room's end.
    /// The last step that the room has taken, and the time of that step.
    planned_abort::step at = planned_abort::step::opened;
    clock::time_point since;
    bool opened = false, aborted = false;
  };

  bool is_prefill() const noexcept { return rank_ < plan_.prefill_ranks; }
  /// Returns the rank's index among the ranks of its engine.
  std::uint32_t own_rank() const noexcept {
    return is_prefill() ? rank_ : rank_ - plan_.prefill_ranks;
  }
  rank_cell& own_cell() noexcept { return board_.ranks[rank_]; }

  void reach(open_room& room, planned_abort::step step);
  /// Gives the room's items back; they are overwritten at once, as by a next user.
  void give_back(open_room& room);
  /// Tells the router how the room has ended at this rank; `why` is the reason if it has failed.
  void tell(open_room& room, std::uint32_t cell, outcome how, const std::string& why);

  /// Opens the room at the worker. @pre the room has its memory
  virtual void open(open_room& room, std::uint32_t cell) = 0;
  /// Takes the room's next step, if its time has come. Returns whether it took a step.
  virtual bool step(open_room& room, std::uint32_t cell) = 0;
  virtual void abort(open_room& room, std::uint32_t cell, const std::string& reason,
                     handoff::failure_kind kind) = 0;
  virtual std::uint64_t rooms_left() const = 0;

  const handoff_plan& plan_;
  handoff_board& board_;
  const std::uint32_t rank_;
  rank_memory memory_;

private:
  bool take_new_rooms();
  bool begin_rooms();
  bool step_rooms();
  bool abort_if_wanted(open_room& room, std::uint32_t cell);

  const std::uint64_t begun_;
  std::uint64_t next_; ///< Serial of the room that gets memory next.
  std::array<open_room, cells_max> rooms_;
};

/// Runs a rank in this process until the run is over.
void run_rank(const handoff_plan& plan, handoff_board& board, std::uint32_t rank,
              std::uint64_t begun);

} // namespace peercache::handoff_stress
