#include "link/timers.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <sys/timerfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::link {

timers::time_point together_with_others(timers::time_point t, timers::time_point now) noexcept {
  constexpr int parts_of_wait = 64;
  using duration = timers::time_point::duration;
  constexpr auto step_max =
      std::bit_floor(static_cast<std::uint64_t>(duration(std::chrono::milliseconds(16)).count()));
  constexpr std::chrono::milliseconds step_of_beats(25);
  if (t <= now || t > timers::time_point::max() - std::chrono::seconds(1) ||
      t.time_since_epoch() % step_of_beats == duration::zero())
    return t;
  const auto wait = static_cast<std::uint64_t>((t - now).count());
  const auto step = std::min(std::bit_floor(wait / parts_of_wait), step_max);
  if (step == 0)
    return t;
  const auto at = static_cast<std::uint64_t>(t.time_since_epoch().count());
  return timers::time_point(duration(static_cast<duration::rep>((at + step - 1) / step * step)));
}

timers::timers(std::function<void(time_point)> sooner, std::function<void()> look)
    : sooner_(std::move(sooner)), look_(std::move(look)),
      alarm_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
  if (!alarm_)
    throw std::system_error(errno, std::generic_category(), "timerfd_create");
}

template <class Insert>
void timers::set(time_point t, Insert&& insert) {
  t = together_with_others(t, now());
  {
    const std::lock_guard guard(lock_);
    if (stopped_)
      return; // Nobody would deliver the timer, and its reference would keep the actor from ending.
    insert(t);
    if (delivers_ || t >= first_.load())
      return; // At the end of a delivery its thread looks at all timers once more.
    first_ = t;
    if (alarm_at_.load() > first_is_late())
      set_alarm(first_is_late());
  }
  sooner_(t);
}

timers::time_point timers::first_is_late() const noexcept {
  const auto first = first_.load();
  return first > time_point::max() - late_max ? time_point::max() : first + late_max;
}

void timers::look_after() noexcept {
  // An alarm that has rung is not set again: its thread is about to look, and would miss that it
  // rang.
  const auto latest = now() + late_max;
  if (alarm_at_.load() <= latest)
    return;
  const std::lock_guard guard(lock_);
  if (!stopped_ && alarm_at_.load() > latest)
    set_alarm(latest);
}

void timers::sleep_until_first() noexcept {
  const std::lock_guard guard(lock_);
  if (!stopped_ && !delivers_)
    set_alarm(first_is_late());
}

void timers::set_alarm(time_point at) noexcept {
  if (at == alarm_at_.load() || !home_.is_here())
    return;
  alarm_at_ = at;
  itimerspec set{};
  if (at != time_point::max()) {
    const auto since = std::max(at.time_since_epoch(), time_point::duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    set.it_value = {seconds.count(), std::chrono::nanoseconds(since - seconds).count()};
  }
  PEERCACHE_ASSERT(::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &set, nullptr) == 0);
}

void timers::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                  std::uint64_t id) {
  set(t, [&](time_point at) { simple_actor_clock::set_ordinary_timeout(at, self, type, id); });
}

void timers::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                               std::uint64_t id) {
  set(t, [&](time_point at) { simple_actor_clock::set_multi_timeout(at, self, type, id); });
}

void timers::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  set(t, [&](time_point at) { simple_actor_clock::set_request_timeout(at, self, id); });
}

// Only a living actor calls the three functions below, and they drop only references to that actor:
// so none of them ends an actor, whose end would call this clock again while the lock is held.

void timers::cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) {
  const std::lock_guard guard(lock_);
  simple_actor_clock::cancel_ordinary_timeout(self, type);
}

void timers::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  const std::lock_guard guard(lock_);
  simple_actor_clock::cancel_request_timeout(self, id);
}

void timers::cancel_timeouts(caf::abstract_actor* self) {
  const std::lock_guard guard(lock_);
  simple_actor_clock::cancel_timeouts(self);
}

void timers::schedule_message(time_point t, caf::strong_actor_ptr receiver,
                              caf::mailbox_element_ptr content) {
  set(t, [&](time_point at) {
    simple_actor_clock::schedule_message(at, std::move(receiver), std::move(content));
  });
}

void timers::schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                              caf::message content) {
  set(t, [&](time_point at) {
    simple_actor_clock::schedule_message(at, std::move(target), std::move(sender),
                                         std::move(content));
  });
}

void timers::cancel_all() {
  // Timers are dropped after the lock is released: an actor that ends with its timer may cancel
  // other timers of this clock.
  schedule_map dropped;
  const std::lock_guard guard(lock_);
  actor_lookup_.clear();
  dropped.swap(schedule_);
  first_ = time_point::max();
}

std::vector<timers::unique_delayed_event_ptr> timers::take_due(time_point now) {
  std::vector<unique_delayed_event_ptr> due;
  while (!stopped_ && !schedule_.empty() && schedule_.begin()->first <= now) {
    const auto first = schedule_.begin();
    if (first->second->backlink != actor_lookup_.end())
      actor_lookup_.erase(first->second->backlink);
    due.push_back(std::move(first->second));
    schedule_.erase(first);
  }
  return due;
}

void timers::deliver_due() {
  if (const auto first = first_.load(); first == time_point::max() || first > now())
    return;
  std::unique_lock guard(lock_);
  if (delivers_ || stopped_)
    return; // Timers are delivered in the order of their times, so by one thread at a time.
  delivers_ = true;
  first_ = time_point::max(); // So nobody else looks for what is being delivered.
  for (auto due = take_due(now()); !due.empty(); due = take_due(now())) {
    guard.unlock();
    for (const auto& each : due)
      ship(*each);
    due.clear(); // Without the lock, as in `cancel_all`.
    guard.lock();
  }
  delivers_ = false;
  if (stopped_)
    return;
  const auto first = schedule_.empty() ? time_point::max() : schedule_.begin()->first;
  first_ = first;
  if (alarm_at_.load() > first_is_late())
    set_alarm(first_is_late());
  guard.unlock();
  sooner_(first);
}

void timers::run() {
  for (std::uint64_t times = 0;;) {
    if (::read(alarm_.get(), &times, sizeof times) < 0 && errno != EINTR)
      return; // Nothing but a closed descriptor makes this fail.
    deliver_due();
    {
      const std::lock_guard guard(lock_);
      if (stopped_)
        return;
      // A timer that is late is being delivered by another thread, which may be held up.
      set_alarm(std::max(first_is_late(), now() + late_max));
    }
    look_();
  }
}

void timers::stop() noexcept {
  const std::lock_guard guard(lock_);
  stopped_ = true;
  first_ = time_point::max();
  set_alarm(time_point{}); // At once.
}

} // namespace peercache::link
