#include "link/scheduler.hpp"

#include "common/assert.hpp"
#include "link/timers.hpp"

#include <caf/execution_unit.hpp>
#include <caf/logger.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

namespace peercache::link {

namespace {

/// The jobs of all workers: actors that have messages. Jobs that are left at its end are released
/// without having run.
class job_queue {
public:
  job_queue() = default;
  ~job_queue() {
    for (auto* job : jobs_)
      if (job != nullptr)
        caf::intrusive_ptr_release(job);
  }
  job_queue(const job_queue&) = delete;
  job_queue& operator=(const job_queue&) = delete;

  /// @param job null: one worker has to end
  void push(caf::resumable* job) {
    bool wakes = false;
    {
      const std::lock_guard guard(lock_);
      jobs_.push_back(job);
      wakes = sleeping_ != 0;
    }
    if (wakes)
      came_.notify_one();
  }

  /// Waits for a job. Null: the worker has to end.
  caf::resumable* pop() {
    std::unique_lock guard(lock_);
    while (jobs_.empty()) {
      ++sleeping_;
      came_.wait(guard);
      --sleeping_;
    }
    auto* job = jobs_.front();
    jobs_.pop_front();
    return job;
  }

  /// Takes the jobs that are left. Call when no worker runs any longer.
  std::deque<caf::resumable*> take_all() {
    const std::lock_guard guard(lock_);
    return std::exchange(jobs_, {});
  }

private:
  std::mutex lock_; ///< Guards all members: any thread that sends a message may push a job.
  std::condition_variable came_;
  std::deque<caf::resumable*> jobs_;
  std::size_t sleeping_ = 0; ///< Workers that wait for a job.
};

/// Runs jobs in a thread of its own.
class worker final : public caf::execution_unit {
public:
  worker(caf::actor_system& system, job_queue& jobs, std::size_t throughput)
      : execution_unit(&system), jobs_(jobs), throughput_(throughput) {}

  void exec_later(caf::resumable* job) override { jobs_.push(job); }

  void run() {
    while (auto* job = jobs_.pop()) {
      switch (job->resume(this, throughput_)) {
      case caf::resumable::resume_later:
        jobs_.push(job); // Waiting jobs come first; the queue keeps this worker's reference.
        break;
      case caf::resumable::done:
      case caf::resumable::awaiting_message:
        caf::intrusive_ptr_release(job);
        break;
      case caf::resumable::shutdown_execution_unit:
        PEERCACHE_ASSERT(false); // Only CAF's own schedulers have such a job.
        break;
      }
    }
  }

private:
  job_queue& jobs_;
  const std::size_t throughput_;
};

class scheduler final : public caf::scheduler::abstract_coordinator {
public:
  using abstract_coordinator::abstract_coordinator;

  /// Ends the threads that were begun before the system failed to start for want of another thread.
  ~scheduler() override { end_threads(); }

  void enqueue(caf::resumable* job) override {
    PEERCACHE_ASSERT(job != nullptr);
    jobs_.push(job);
  }
  caf::actor_clock& clock() noexcept override { return timers_; }

protected:
  void start() override {
    for (std::size_t i = 0; i < num_workers(); ++i) {
      auto& runs =
          *workers_.emplace_back(std::make_unique<worker>(system(), jobs_, max_throughput()));
      threads_.push_back(begin("peercache-actor", [&runs] { runs.run(); }));
    }
    clock_thread_ = begin("peercache-clock", [this] { timers_.run(); });
    abstract_coordinator::start();
  }

  void stop() override {
    stop_actors();
    end_threads();
    // An actor that ends sends messages to other actors, so new jobs may come while jobs are
    // released.
    for (auto left = jobs_.take_all(); !left.empty(); left = jobs_.take_all())
      for (auto* job : left)
        if (job != nullptr)
          cleanup_and_release(job);
  }

private:
  void end_threads() {
    timers_.stop();
    if (clock_thread_.joinable())
      clock_thread_.join();
    timers_.cancel_all(); // Timers refer to actors, which end while the system still stands.
    for (std::size_t i = 0; i < threads_.size(); ++i)
      jobs_.push(nullptr);
    for (auto& each : threads_)
      each.join();
    threads_.clear();
  }

  template <class Body>
  std::thread begin(const char* name, Body body) {
    return std::thread([this, name, body] {
      caf::logger::set_current_actor_system(&system());
      ::pthread_setname_np(::pthread_self(), name);
      system().thread_started();
      body();
      system().thread_terminates();
    });
  }

  timers timers_;
  job_queue jobs_;
  /// The workers, which live as long as this object: an actor keeps a pointer to the worker that
  /// has run it last.
  std::vector<std::unique_ptr<worker>> workers_;
  std::vector<std::thread> threads_; ///< Threads that run `workers_`, one for each.
  std::thread clock_thread_;
};

} // namespace

caf::actor_system::module* make_scheduler(caf::actor_system& system) {
  return new scheduler(system);
}

} // namespace peercache::link
