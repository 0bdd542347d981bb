#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <httplib.h>
#include <mutex>
#include <thread>
#include <vector>

namespace peercache::metrics {

/// What cpp-httplib hands accepted connections to: a few threads and a queue with a limit. When the
/// queue is full the accepting thread serves the connection itself, which is the backpressure.
///
/// Threads: enqueue() and shutdown() from the accepting thread; starts `threads` of its own and
/// joins them in shutdown(), after the queue is empty.
class bounded_task_queue final : public httplib::TaskQueue {
public:
  bounded_task_queue(std::size_t threads, std::size_t waiting_max);

  void enqueue(std::function<void()> task) override;
  void shutdown() override;

private:
  void work();

  const std::size_t waiting_max_;
  std::vector<std::thread> threads_;

  // State below is protected by `mutex_`: the library calls us with plain functions, so there is no
  // mailbox to put them in.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool shutdown_ = false;
};

} // namespace peercache::metrics
