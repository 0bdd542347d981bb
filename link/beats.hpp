#pragma once

#include "common/beat_time.hpp"
#include "link/protocol/atoms.hpp"
#include "link/protocol/internal.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_clock.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message_id.hpp>

#include <chrono>
#include <optional>

namespace peercache::link {

/// The longest pause between two beats of an actor that has nothing to do.
inline constexpr std::chrono::milliseconds rest_period{1000};

/// Sends the actor one beat that arrives at `at`. The message names no sender: a message that named
/// the actor would keep it alive, and CAF 0.17.6 does not empty the mailbox of a broker that ends.
template <class Self>
void beat_at(Self* self, caf::actor_clock::time_point at) {
  self->clock().schedule_message(
      at, caf::actor_cast<caf::strong_actor_ptr>(self),
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, beat_atom_v, from_here{}));
}

/// Sends the actor one beat that arrives within `period`.
template <class Self>
void beat_within(Self* self, std::chrono::milliseconds period) {
  beat_at(self, next_beat(self->clock().now(), period));
}

/// When an actor beats next, by a `beat_atom` that it sends to itself. A planned beat may be
/// brought forward when there is something to do after all; the message of the later time is then
/// ignored.
///
/// Threads: none; the actor serializes. Bounds: one message for each time that a beat was brought
/// forward, until the message's time has come.
class beats {
public:
  /// Whether a `beat_atom` that has arrived counts; false: the planned beat is later. Call once for
  /// each `beat_atom`.
  bool due(caf::actor_clock::time_point now) noexcept {
    if (planned_ && now < *planned_)
      return false;
    planned_.reset();
    return true;
  }

  /// Plans the next beat, within `period`.
  template <class Self>
  void plan(Self* self, std::chrono::milliseconds period) {
    plan(self, next_beat(self->clock().now(), period));
  }
  template <class Self>
  void plan(Self* self, caf::actor_clock::time_point at) {
    if (planned_ && *planned_ <= at)
      return;
    planned_ = at;
    beat_at(self, at);
  }

private:
  /// Time of the next beat; none: no beat is planned.
  std::optional<caf::actor_clock::time_point> planned_;
};

} // namespace peercache::link
