#include "client/started_calls.hpp"

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

namespace peercache::client {

started_calls::~started_calls() {
  {
    std::lock_guard guard{lock_};
    ending_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_)
    thread.join();
}

bool started_calls::begin(std::function<void()> call, std::function<void()> tell) {
  {
    std::lock_guard guard{lock_};
    if (running_ >= running_max_ || ending_)
      return false;
    if (running_ == threads_.size() && !add_thread())
      return false;
    begun_.push_back({std::move(call), std::move(tell)});
    ++running_;
  }
  changed_.notify_one();
  return true;
}

bool started_calls::add_thread() {
  // The new thread blocks all signals: only the program's own threads handle them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool added = true;
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    added = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return added;
}

void started_calls::work() {
  std::unique_lock guard{lock_};
  for (;;) {
    changed_.wait(guard, [this] { return ending_ || !begun_.empty(); });
    if (begun_.empty())
      return;
    auto next = std::move(begun_.front());
    begun_.pop_front();
    guard.unlock();
    next.call();
    guard.lock();
    --running_;
    guard.unlock();
    next.tell();
    next = {}; // The call and what it holds are destroyed while the lock is free.
    guard.lock();
  }
}

bool started_calls::is_caller() const {
  std::lock_guard guard{lock_};
  return std::any_of(threads_.begin(), threads_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

} // namespace peercache::client
