#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace peercache {

/// Lets the calls of one thread end early, for a reason that only this thread can find out:
/// signals, whose handlers Python runs only in its main thread. While an object lives, every wait
/// of its thread wakes each `interval` to call `look`. Once `look` has returned true, the thread's
/// waits end as if its client were closed. A thread without an object waits undisturbed and pays
/// one load.
///
/// Threads: object and functions belong to the calling thread. Lifetime: objects can be nested, and
/// the innermost one is asked: `look` may itself run calls that have an interruption of their own.
/// Nothing calls `look` while it holds a lock.
class interruption {
public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds interval{50};

  /// @param look returns whether the calls of this thread have to end; must not throw
  explicit interruption(std::function<bool()> look);
  ~interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;

  /// Whether this thread has an interruption at all.
  static bool possible() noexcept;
  /// Whether this thread's calls have to end: the function that its innermost interruption was made
  /// with has returned true. False without an interruption.
  static bool given() noexcept;
  /// Calls this thread's `look` if `interval` has passed since its last call. Returns `given()`.
  static bool look();
  /// Until when this thread may wait before its next `look`: `until` at the latest.
  static clock::time_point next_look(clock::time_point until) noexcept;

private:
  const std::function<bool()> look_;
  interruption* const outer_;
  clock::time_point due_;
  bool given_ = false;
};

/// Waits until `done()`, which is called with the lock held, returns true, until `until`, or until
/// the thread is interrupted. Returns the last `done()`.
template <class Done>
bool wait_interruptibly(std::unique_lock<std::mutex>& guard, std::condition_variable& changed,
                        interruption::clock::time_point until, Done&& done) {
  while (!interruption::given()) {
    const auto slice = interruption::next_look(until);
    if (changed.wait_until(guard, slice, done))
      return true;
    if (slice >= until)
      return false;
    guard.unlock();
    interruption::look();
    guard.lock();
  }
  return done();
}

} // namespace peercache
