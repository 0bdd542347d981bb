#include "link/scheduler.hpp"

#include "common/assert.hpp"
#include "link/job_queue.hpp"

#include <caf/execution_unit.hpp>
#include <caf/logger.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <memory>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

namespace peercache::link {

namespace {

/// Runs jobs in a thread of its own.
class worker final : public caf::execution_unit {
public:
  worker(caf::actor_system& system, job_queue& jobs, std::size_t throughput)
      : execution_unit(&system), jobs_(jobs), throughput_(throughput) {}

  void exec_later(caf::resumable* job) override { jobs_.push(job); }

  void run() {
    while (auto* job = jobs_.pop(bed_)) {
      switch (job->resume(this, throughput_)) {
      case caf::resumable::resume_later:
        jobs_.push(job); // The queue keeps this worker's reference.
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
  job_queue::bed bed_;
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
  caf::actor_clock& clock() noexcept override { return jobs_.clock(); }

protected:
  void start() override {
    for (std::size_t i = 0; i < num_workers(); ++i) {
      auto& runs =
          *workers_.emplace_back(std::make_unique<worker>(system(), jobs_, max_throughput()));
      threads_.push_back(begin("peercache-actor", [&runs] { runs.run(); }));
    }
    clock_thread_ = begin("peercache-clock", [this] { jobs_.clock().run(); });
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
    jobs_.clock().stop();
    if (clock_thread_.joinable())
      clock_thread_.join();
    jobs_.clock().cancel_all(); // Timers refer to actors, which end while the system still stands.
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
