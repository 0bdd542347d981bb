#include "link/timers.hpp"

#include <utility>
#include <vector>

namespace peercache::link {

template <class Insert>
void timers::set(time_point t, Insert&& insert) {
  bool wakes = false;
  {
    const std::lock_guard guard(lock_);
    insert();
    wakes = t < sleeps_until_;
    if (wakes)
      sleeps_until_ = time_point::min(); // Further timers need not wake the thread once more.
  }
  if (wakes)
    sooner_.notify_one();
}

void timers::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                  std::uint64_t id) {
  set(t, [&] { simple_actor_clock::set_ordinary_timeout(t, self, type, id); });
}

void timers::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                               std::uint64_t id) {
  set(t, [&] { simple_actor_clock::set_multi_timeout(t, self, type, id); });
}

void timers::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  set(t, [&] { simple_actor_clock::set_request_timeout(t, self, id); });
}

// A time-out refers to the actor that cancels it, which lives: none of these three is the last
// reference to an actor, whose end would come back here.

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
  set(t, [&] { simple_actor_clock::schedule_message(t, std::move(receiver), std::move(content)); });
}

void timers::schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                              caf::message content) {
  set(t, [&] {
    simple_actor_clock::schedule_message(t, std::move(target), std::move(sender),
                                         std::move(content));
  });
}

void timers::cancel_all() {
  // Timers are dropped without the lock: the end of an actor may cancel others.
  schedule_map dropped;
  const std::lock_guard guard(lock_);
  actor_lookup_.clear();
  dropped.swap(schedule_);
}

std::vector<timers::unique_delayed_event_ptr> timers::take_due(time_point now) {
  std::vector<unique_delayed_event_ptr> due;
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const auto first = schedule_.begin();
    if (first->second->backlink != actor_lookup_.end())
      actor_lookup_.erase(first->second->backlink);
    due.push_back(std::move(first->second));
    schedule_.erase(first);
  }
  return due;
}

void timers::run() {
  std::unique_lock guard(lock_);
  while (!stopped_) {
    auto due = take_due(now());
    if (!due.empty()) {
      guard.unlock();
      for (const auto& each : due)
        ship(*each);
      due.clear();
      guard.lock();
      continue;
    }
    if (schedule_.empty()) {
      sleeps_until_ = time_point::max();
      sooner_.wait(guard);
    } else {
      sleeps_until_ = schedule_.begin()->first;
      sooner_.wait_until(guard, sleeps_until_);
    }
    sleeps_until_ = time_point::min();
  }
}

void timers::stop() noexcept {
  {
    const std::lock_guard guard(lock_);
    stopped_ = true;
  }
  sooner_.notify_one();
}

} // namespace peercache::link
