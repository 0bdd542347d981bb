#include "rdma/data_plane_loop.hpp"

#include "common/assert.hpp"
#include "net/futex.hpp"

#include <ctime>
#include <poll.h>

namespace peercache::rdma {

namespace {

/// How often a caller tries to run the plane before it leaves its batch to the thread: a turn in
/// which nothing moves is that short.
constexpr int tries_max = 64;

void sleep_until_readable(int descriptor, clock::duration at_most) noexcept {
  using std::chrono::duration_cast;
  const auto seconds = duration_cast<std::chrono::seconds>(at_most);
  const timespec time{seconds.count(),
                      duration_cast<std::chrono::nanoseconds>(at_most - seconds).count()};
  pollfd one{descriptor, POLLIN, 0};
  [[maybe_unused]] const auto ready = ::ppoll(&one, 1, &time, nullptr);
}

} // namespace

data_plane_loop::data_plane_loop(data_plane& plane, const data_plane_loop_options& opts)
    : plane_(plane), options_(opts), ring_(plane, opts.ring_capacity, [this] { wake(); }) {
  PEERCACHE_ASSERT(opts.callers == callers_run::never || plane.descriptor() >= 0);
}

void data_plane_loop::wake() noexcept {
  bell_.fetch_add(1, std::memory_order_release);
  if (options_.callers == callers_run::sleeping)
    net::futex_wake_all(bell_);
  plane_.wake();
}

void data_plane_loop::lock_turn() {
  if (turn_.try_lock())
    return;
  thread_waits_.store(true, std::memory_order_relaxed);
  turn_.lock();
  thread_waits_.store(false, std::memory_order_relaxed);
}

std::unique_lock<std::mutex> data_plane_loop::take_turn() {
  if (options_.callers == callers_run::never)
    return {};
  lock_turn();
  plane_.adopt();
  return std::unique_lock(turn_, std::adopt_lock);
}

std::unique_lock<std::mutex> data_plane_loop::take_callers_turn() {
  if (options_.callers == callers_run::never || thread_waits_.load(std::memory_order_relaxed))
    return {};
  std::unique_lock mine(turn_, std::try_to_lock);
  const bool waits = options_.callers == callers_run::polling && net::spinning_helps();
  for (int i = 0; !mine && waits && i < tries_max; ++i) {
    net::spin_pause();
    if (mine.try_lock())
      break;
  }
  const bool has_to_be_parked = options_.callers == callers_run::sleeping;
  if (!mine || (has_to_be_parked && !(parked_ && ring_.asleep())))
    return {};
  plane_.adopt();
  return mine;
}

void data_plane_loop::read_now(read_batch& batch) noexcept {
  auto mine = take_callers_turn();
  if (!mine)
    return ring_.submit(batch);
  const auto bell_seen = bell_.load(std::memory_order_acquire);
  const bool took = ring_.drain();
  if (ring_.has_more()) {
    // A cancel of this thread may be behind what another thread is about to put into the ring.
    ring_.submit(batch);
    mine.unlock();
    return wake();
  }
  // A batch with a listener may be gone as soon as it is complete.
  const bool watched = batch.listener == nullptr;
  const bool polls = options_.callers == callers_run::polling;
  bool complete = plane_.read_now(batch, clock::now(), options_.caller_alone_max);
  const bool ran = !complete && watched && polls && net::spinning_helps();
  if (ran)
    complete = poll_until_complete(batch);
  else if (!complete && watched && !polls && !took)
    complete = sleep_until_complete(batch, bell_seen);
  mine.unlock();
  // The thread may sleep for longer than what is left to do can wait; and what should have woken it
  // may have been taken here, if this thread has polled the plane.
  if (took || ran || !complete)
    wake();
}

bool data_plane_loop::poll_until_complete(const read_batch& batch) {
  auto now = clock::now();
  const auto until = now + options_.caller_run_max;
  for (std::uint32_t turns = 1; now < until; ++turns) {
    ring_.drain();
    plane_.poll(now);
    if (batch.complete())
      return true;
    if (turns % turns_per_clock == 0)
      now = clock::now();
  }
  return false;
}

bool data_plane_loop::sleep_until_complete(const read_batch& batch, std::uint32_t bell_seen) {
  const auto spin = net::spinning_helps() ? options_.spin : clock::duration::zero();
  auto now = clock::now();
  const auto until = now + options_.caller_run_max;
  for (auto spin_until = now;;) {
    if (plane_.poll(now))
      spin_until = now + spin;
    if (batch.complete())
      return true;
    // The poll may have taken the plane's event of a wake, so the bell says whether there was one.
    if (now >= until || bell_.load(std::memory_order_acquire) != bell_seen)
      return false;
    if (now >= spin_until)
      plane_.wait(until - now);
    now = clock::now();
  }
}

bool data_plane_loop::sleep(std::uint32_t bell_seen) {
  auto mine = take_turn();
  if (!ring_.prepare_sleep())
    return false;
  // As a caller's: a poll of this thread may have taken the event of a wake.
  if (bell_.load(std::memory_order_acquire) == bell_seen)
    sleep_with(mine, bell_seen);
  ring_.awake();
  return true;
}

void data_plane_loop::sleep_with(std::unique_lock<std::mutex>& turn, std::uint32_t bell_seen) {
  const bool sleeping_callers = options_.callers == callers_run::sleeping;
  if (options_.callers == callers_run::never || (sleeping_callers && !plane_.idle()))
    return plane_.wait(options_.sleep_max);
  const auto at_most = plane_.rest(options_.sleep_max);
  if (at_most <= clock::duration::zero())
    return;
  parked_ = sleeping_callers;
  turn.unlock();
  if (sleeping_callers)
    net::futex_wait(bell_, bell_seen, at_most);
  else
    sleep_until_readable(plane_.descriptor(), at_most);
  // Until this thread has its turn it counts as asleep: who has something for the plane then wakes
  // the caller that runs it.
  lock_turn();
  turn = std::unique_lock(turn_, std::adopt_lock);
  parked_ = false;
}

void data_plane_loop::run(const std::atomic<bool>& stop) noexcept {
  const auto spin = net::spinning_helps() ? options_.spin : clock::duration::zero();
  clock::time_point now{};
  clock::time_point spin_until{};
  std::uint32_t turns_to_clock = 0;
  for (;;) {
    const auto bell_seen = bell_.load(std::memory_order_acquire);
    if (stop.load(std::memory_order_acquire))
      break;
    auto mine = take_turn();
    const bool took = ring_.drain();
    if (took || turns_to_clock == 0) {
      now = clock::now();
      turns_to_clock = turns_per_clock;
    }
    --turns_to_clock;
    const bool moved = plane_.poll(now);
    if (mine)
      mine.unlock();
    if (took || moved) {
      spin_until = now + spin;
      turns_to_clock = 0;
    } else if (now < spin_until) {
      net::spin_pause();
    } else if (sleep(bell_seen)) {
      turns_to_clock = 0;
    }
  }
  const auto mine = take_turn();
  ring_.close();
  plane_.shutdown();
}

} // namespace peercache::rdma
