#include "python/gil.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>

namespace peercache::python {
namespace {

std::atomic<int> threads_outside{0}; ///< Threads that run our code without the GIL.
std::atomic<bool> ending{false};

} // namespace

void park() noexcept {
  for (;;)
    ::pause();
}

without_gil::without_gil() noexcept {
  threads_outside.fetch_add(1);
  state_ = PyEval_SaveThread();
}

without_gil::~without_gil() {
  threads_outside.fetch_sub(1);
  or_park([this] { PyEval_RestoreThread(state_); });
}

void rest_without_gil(std::chrono::milliseconds pause) {
  auto* state = PyEval_SaveThread();
  std::this_thread::sleep_for(pause);
  or_park([state] { PyEval_RestoreThread(state); });
}

void announce_end() noexcept {
  ending.store(true);
}

bool end_announced() noexcept {
  return ending.load();
}

bool wait_for_other_threads(std::chrono::steady_clock::time_point until) {
  // Polling is good enough: this runs once in a process, and calls that end need not pay for waking
  // this thread.
  while (threads_outside.load() > 1) {
    if (std::chrono::steady_clock::now() >= until)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void leave_without_destructors() {
  ::on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        ::_exit(status);
      },
      nullptr);
}

void forget_other_threads() noexcept {
  threads_outside.store(0);
}

} // namespace peercache::python
