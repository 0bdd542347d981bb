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
    : plane_(plane), options_(opts), ring_(plane, opts.ring_capacity) {
  PEERCACHE_ASSERT(!opts.callers_run || plane.descriptor() >= 0);
}

std::unique_lock<std::mutex> data_plane_loop::take_turn() {
  if (!options_.callers_run)
    return {};
  std::unique_lock mine(turn_);
  plane_.adopt();
  return mine;
}

void data_plane_loop::read_now(read_batch& batch) noexcept {
  if (!options_.callers_run)
    return ring_.submit(batch);
  std::unique_lock mine(turn_, std::try_to_lock);
  for (int i = 0; !mine && i < tries_max && net::spinning_helps(); ++i) {
    net::spin_pause();
    if (mine.try_lock())
      break;
  }
  if (!mine)
    return ring_.submit(batch);
  plane_.adopt();
  bool took = ring_.drain();
  // A batch with a listener may be gone as soon as it is complete.
  const bool watched = batch.listener == nullptr;
  bool complete = plane_.read_now(batch, options_.caller_alone_max);
  const bool ran = !complete && watched && net::spinning_helps();
  if (ran)
    complete = run_until_complete(batch, took);
  mine.unlock();
  // The thread may sleep for longer than what is left to do can wait; and what should have woken it
  // may have been taken here, if this thread has run the plane.
  if (took || ran || !complete)
    plane_.wake();
}

bool data_plane_loop::run_until_complete(const read_batch& batch, bool& took) {
  auto now = clock::now();
  const auto until = now + options_.caller_run_max;
  for (std::uint32_t turns = 1; now < until; ++turns) {
    took |= ring_.drain();
    plane_.poll(now);
    if (batch.complete())
      return true;
    if (turns % turns_per_clock == 0)
      now = clock::now();
  }
  return false;
}

bool data_plane_loop::sleep() {
  if (!options_.callers_run) {
    if (!ring_.prepare_sleep())
      return false;
    plane_.wait(options_.sleep_max);
  } else {
    auto mine = take_turn();
    if (!ring_.prepare_sleep())
      return false;
    const auto at_most = plane_.rest(options_.sleep_max);
    mine.unlock();
    if (at_most > clock::duration::zero())
      sleep_until_readable(plane_.descriptor(), at_most);
  }
  ring_.awake();
  return true;
}

void data_plane_loop::run(const std::atomic<bool>& stop) {
  const auto spin = net::spinning_helps() ? options_.spin : clock::duration::zero();
  clock::time_point now{};
  clock::time_point spin_until{};
  std::uint32_t turns_to_clock = 0;
  while (!stop.load(std::memory_order_acquire)) {
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
    } else if (sleep()) {
      turns_to_clock = 0;
    }
  }
  const auto mine = take_turn();
  ring_.close();
  plane_.shutdown();
}

} // namespace peercache::rdma
