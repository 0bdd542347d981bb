#pragma once

#include "link/timers.hpp"

#include <caf/resumable.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

namespace peercache::link {

/// The jobs of all workers of a scheduler, and the clock that they share: jobs are actors that have
/// messages. A worker that finds no job sleeps; one of those that sleep wakes when the first timer
/// is due, delivers what is due and runs what that made ready. So no thread is woken to deliver,
/// and then another to run. Nor is one woken for the few jobs that a worker makes ready itself, by
/// its own job or by timers: that worker takes them when it has done, which is soon, and does not
/// wait for a thread to wake. Should its job hold it up, others are called after
/// `timers::late_max`.
///
/// Threads: `push`, `clock` any; `pop` the workers; `take_all` when these have ended.
/// Bounds: timers, and jobs that a sleeping worker could take, are late by `timers::late_max` when
/// the workers that would take them are held up by their jobs. Ownership: jobs that are left at its
/// end are released without having run.
class job_queue {
public:
  using time_point = timers::time_point;

  /// Where one worker sleeps.
  class bed {
    friend job_queue;
    std::condition_variable called_;
    time_point until_{}; ///< Guarded by the queue's lock, as `is_called_`.
    bool is_called_ = false;
  };

  job_queue();
  ~job_queue();
  job_queue(const job_queue&) = delete;
  job_queue& operator=(const job_queue&) = delete;

  timers& clock() noexcept { return clock_; }

  /// @param job null: one worker has to end
  void push(caf::resumable* job);
  /// Waits for a job, and delivers timers that are due meanwhile. Null: the worker has to end.
  caf::resumable* pop(bed& own);
  /// Takes the jobs that are left. Call when no worker runs any longer.
  std::deque<caf::resumable*> take_all();

private:
  /// Lets a worker that sleeps wake at `first`, the time of the first timer now. Does nothing in a
  /// worker, which looks at the clock itself before its next job.
  void sooner(time_point first);
  /// Calls workers that sleep for jobs that wait for one that is held up.
  void help();
  /// Sleeps until called, or until it is time to look at the clock. @pre the lock is held
  void sleep(std::unique_lock<std::mutex>& guard, bed& own);
  /// Whether a worker sleeps that wakes by `first`. @pre the lock is held
  bool is_watched(time_point first) const noexcept;
  /// Calls the worker that would sleep the longest, so that the one that watches the clock goes on;
  /// the caller then notifies it, without the lock. Null: all workers are awake. @pre the lock is
  /// held
  bed* call_one() noexcept;

  timers clock_;
  std::mutex lock_; ///< Guards all members below: any thread that sends a message may push a job.
  std::deque<caf::resumable*> jobs_;
  std::vector<bed*> asleep_; ///< Beds of workers that sleep and were not called.
};

} // namespace peercache::link
