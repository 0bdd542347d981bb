#pragma once

#include "handoff/room_state.hpp"

#include <atomic>
#include <map>
#include <memory>

namespace peercache::client {

/// The state of one room as the engine's threads see it: a scheduler asks for each room in each
/// turn of its loop, so a `poll` costs one load. Threads: any.
class room_watch {
public:
  handoff::room_state poll() const noexcept { return state_->load(std::memory_order_acquire); }

private:
  template <class Id>
  friend class room_watches;
  using cell = std::atomic<handoff::room_state>;
  std::shared_ptr<cell> state_ = std::make_shared<cell>(handoff::room_state::bootstrapping);
};

/// The watches of a worker's open rooms, by the rooms' ids. Threads: one owner at a time.
template <class Id>
class room_watches {
public:
  room_watch add(Id id) { return watches_[id] = room_watch{}; }
  /// Sets the state of an open room. Returns whether the room is open and had another state until
  /// now.
  bool set(Id id, handoff::room_state state) noexcept {
    const auto found = watches_.find(id);
    return found != watches_.end() &&
           found->second.state_->exchange(state, std::memory_order_acq_rel) != state;
  }
  /// Ends the watch of a room that is cleared: threads that still poll it see that the room has
  /// failed.
  void end(Id id) noexcept {
    set(id, handoff::room_state::failed);
    watches_.erase(id);
  }

private:
  std::map<Id, room_watch> watches_;
};

} // namespace peercache::client
