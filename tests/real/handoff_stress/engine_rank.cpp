#include "engine_rank.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

namespace peercache::handoff_stress {

namespace {

cause cause_of(const std::string& why) {
  const auto has = [&](const char* words) { return why.find(words) != std::string::npos; };
  if (has("has aborted"))
    return cause::aborted_there;
  if (has("this side gives it up"))
    return cause::aborted_here;
  if (has("another rank"))
    return cause::other_rank;
  if (has("a read has failed") || has("lease had ended"))
    return cause::read_failed;
  if (has("its time is over"))
    return cause::timed_out;
  if (has("ended") || has("lost") || has("reached"))
    return cause::lost;
  return cause::other;
}

} // namespace

engine_rank::engine_rank(const handoff_plan& plan, handoff_board& board, std::uint32_t rank,
                         std::uint64_t begun)
    : plan_(plan), board_(board), rank_(rank),
      memory_(plan, rank < plan.prefill_ranks ? rank : rank - plan.prefill_ranks,
              rank < plan.prefill_ranks),
      begun_(begun), next_(begun + 1) {}

void engine_rank::run() {
  while (true) {
    const bool finish = board_.finish.load(std::memory_order_acquire);
    bool moved = take_new_rooms();
    moved |= begin_rooms();
    moved |= step_rooms();
    if (moved)
      continue;
    if (finish &&
        std::all_of(rooms_.begin(), rooms_.end(), [](const open_room& room) { return room.done; }))
      break;
    // The pause stands for a scheduler's other work, and leaves processor time to the other ranks.
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  own_cell().rooms_left = rooms_left();
  own_cell().idle.store(true, std::memory_order_release);
}

bool engine_rank::take_new_rooms() {
  bool any = false;
  for (std::uint32_t i = 0; i < plan_.rooms_at_a_time; ++i) {
    const auto serial = board_.rooms[i].serial.load(std::memory_order_acquire);
    auto& room = rooms_[i];
    if (!room.done || serial <= begun_ || serial <= room.serial)
      continue;
    room = {};
    room.serial = serial;
    room.done = false;
    room.plan = plan_of_room(plan_, serial);
    any = true;
  }
  return any;
}

/// Gives rooms their memory in the order of their serials, although a rank may see a room before it
/// sees one that was posted earlier. In different orders two ranks could wait for each other for
/// ever.
bool engine_rank::begin_rooms() {
  std::vector<std::uint32_t> waiting;
  for (std::uint32_t i = 0; i < plan_.rooms_at_a_time; ++i)
    if (!rooms_[i].done && !rooms_[i].opened)
      waiting.push_back(i);
  std::sort(waiting.begin(), waiting.end(), [this](std::uint32_t a, std::uint32_t b) {
    return rooms_[a].serial < rooms_[b].serial;
  });
  bool any = false;
  for (const auto i : waiting) {
    auto& room = rooms_[i];
    if (room.serial != next_)
      break;
    room.items = memory_.take(room.plan);
    own_cell().late_writes += memory_.take_late_writes();
    if (!room.items)
      break;
    ++next_;
    room.opened = true;
    reach(room, planned_abort::step::opened);
    open(room, i);
    any = true;
  }
  return any;
}

bool engine_rank::step_rooms() {
  bool any = false;
  for (std::uint32_t i = 0; i < plan_.rooms_at_a_time; ++i) {
    auto& room = rooms_[i];
    if (room.done || !room.opened)
      continue;
    any |= abort_if_wanted(room, i);
    any |= step(room, i);
  }
  return any;
}

bool engine_rank::abort_if_wanted(open_room& room, std::uint32_t cell) {
  if (room.aborted)
    return false;
  const auto& wanted = room.plan.abort;
  auto& shared = board_.rooms[cell];
  if (shared.engine_failed[is_prefill() ? 0 : 1].load(std::memory_order_acquire))
    abort(room, cell, "another rank has failed", handoff::failure_kind::another_rank);
  else if (shared.time_is_over.load(std::memory_order_acquire))
    abort(room, cell, "its time is over", handoff::failure_kind::aborted);
  else if (wanted.wanted && wanted.rank == rank_ && room.at >= wanted.when &&
           clock::now() - room.since >= wanted.later)
    abort(room, cell, "this side gives it up", handoff::failure_kind::aborted);
  else
    return false;
  room.aborted = true;
  return true;
}

void engine_rank::reach(open_room& room, planned_abort::step step) {
  room.at = step;
  room.since = clock::now();
}

void engine_rank::give_back(open_room& room) {
  if (room.items)
    memory_.give_back(*room.items);
  room.items.reset();
}

void engine_rank::tell(open_room& room, std::uint32_t cell, outcome how, const std::string& why) {
  room.done = true;
  auto& shared = board_.rooms[cell];
  if (how == outcome::failed) {
    ++own_cell().failures[static_cast<std::size_t>(cause_of(why))];
    if (cause_of(why) == cause::other)
      std::fprintf(stderr, "stress: room %llu: %s\n", static_cast<unsigned long long>(room.serial),
                   why.c_str());
    shared.engine_failed[is_prefill() ? 0 : 1].store(true, std::memory_order_release);
  }
  auto open = outcome::none;
  shared.ended[rank_].compare_exchange_strong(open, how, std::memory_order_acq_rel);
}

} // namespace peercache::handoff_stress
