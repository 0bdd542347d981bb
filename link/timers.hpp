#pragma once

#include "common/forks.hpp"
#include "net/socket.hpp"

#include <caf/detail/simple_actor_clock.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace peercache::link {

/// The time at which a timer is delivered that is to be due at `t`: not before it, and later by a
/// 64th of the wait at most, and by no more than 8.4 ms. Times of beats stay
/// (common/beat_time.hpp): multiples of 25 ms. In this way timers whose times are close come
/// together, also those of other processes of this host, and a process wakes once for all of its
/// own.
caf::actor_clock::time_point together_with_others(caf::actor_clock::time_point t,
                                                  caf::actor_clock::time_point now) noexcept;

/// The clock of an actor system: delayed messages and the time-outs of requests, in the order of
/// their times. CAF's own clock hands each timer that is set or cancelled to its thread, which
/// wakes for it. This clock keeps timers under a lock, and whoever calls `deliver_due` delivers: a
/// thread that would sleep otherwise. A timer that nobody has delivered for `late_max` is delivered
/// by the thread that is in `run`, which the kernel wakes then (timerfd); threads that might be
/// held up have that thread look after them (`look_after`). An answered request leaves its time-out
/// behind, so there is a time-out to deliver for each request; `together_with_others` delivers
/// several at once.
///
/// Threads: any; `run` has one of its own. Bounds: those of the actors that set timers. Errors: the
/// constructor throws std::system_error without a descriptor. A time-out that is cancelled while it
/// is being delivered may still arrive, as with CAF's clock; actors ignore it. Forks: a child has
/// the parent's timerfd and never sets it.
class timers final : public caf::detail::simple_actor_clock {
public:
  /// @param sooner told when a timer is set that is due before all others, with its time; called by
  ///     the thread that sets the timer, without a lock of this object
  /// @param look called by the thread in `run` each time it wakes, without a lock of this object
  timers(std::function<void(time_point)> sooner, std::function<void()> look);

  /// Time after which the thread in `run` delivers a timer that is due, unless another thread is
  /// delivering.
  static constexpr std::chrono::milliseconds late_max{25};

  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                            std::uint64_t id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                         std::uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override;
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void schedule_message(time_point t, caf::strong_actor_ptr receiver,
                        caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                        caf::message content) override;
  void cancel_all() override;

  /// When the first timer is due, or before: a cancelled timer may have been the first. The
  /// largest time: no timer is set.
  time_point first() const noexcept { return first_; }
  /// Delivers what is due, without holding the lock. Returns at once when nothing is due, or when
  /// another thread delivers.
  void deliver_due();
  /// Has the thread in `run` look within `late_max`, unless `sleep_until_first` is called before.
  void look_after() noexcept;
  /// Lets the thread in `run` sleep until a timer is late: nobody needs to be looked after.
  void sleep_until_first() noexcept;
  /// Delivers what nobody else has delivered in time, until `stop`.
  void run();
  /// Ends `run`. Timers that are left are dropped by `cancel_all` or with this object; none is
  /// taken or delivered after this.
  void stop() noexcept;

private:
  /// Sets a timer that is due at `t`, by `insert(time)`.
  template <class Insert>
  void set(time_point t, Insert&& insert);
  /// Takes the timers that are due; none after `stop`. @pre the lock is held
  std::vector<unique_delayed_event_ptr> take_due(time_point now);
  /// When the thread in `run` has to deliver the first timer; the largest time: never.
  time_point first_is_late() const noexcept;
  /// Wakes the thread in `run` at this time; never at the largest one. @pre the lock is held
  void set_alarm(time_point at) noexcept;

  const std::function<void(time_point)> sooner_;
  const std::function<void()> look_;
  /// Guards all members below and the base class's timers, because any thread sets timers.
  std::mutex lock_;
  /// Written under the lock. The largest time while a thread delivers.
  std::atomic<time_point> first_{time_point::max()};
  bool delivers_ = false; ///< Whether a thread delivers now.
  bool stopped_ = false;
  net::unique_fd alarm_; ///< A timerfd.
  const home_process home_;
  /// The time for which `alarm_` is set; past once it has rung. Written under the lock.
  std::atomic<time_point> alarm_at_{time_point::max()};
};

} // namespace peercache::link
