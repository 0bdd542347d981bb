#include "metrics/bounded_task_queue.hpp"

#include <utility>

namespace peercache::metrics {

bounded_task_queue::bounded_task_queue(std::size_t threads, std::size_t waiting_max)
    : waiting_max_(waiting_max) {
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this] { work(); });
}

void bounded_task_queue::enqueue(std::function<void()> task) {
  {
    const std::lock_guard lock{mutex_};
    if (waiting_.size() < waiting_max_) {
      waiting_.push_back(std::move(task));
      changed_.notify_one();
      return;
    }
  }
  task();
}

void bounded_task_queue::shutdown() {
  {
    const std::lock_guard lock{mutex_};
    shutdown_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

void bounded_task_queue::work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [this] { return shutdown_ || !waiting_.empty(); });
      if (waiting_.empty())
        return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();
  }
}

} // namespace peercache::metrics
