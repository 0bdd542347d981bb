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
std::atomic<unsigned long> main_thread{0}; ///< Identifier that Python gives to its main thread.

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

bool without_gil::handlers_raise() {
  return or_park([this] {
    PyEval_RestoreThread(state_);
    const bool raised = PyErr_CheckSignals() != 0;
    state_ = PyEval_SaveThread();
    return raised;
  });
}

void set_main_thread(unsigned long ident) noexcept {
  main_thread.store(ident);
}

outside_call::outside_call() {
  if (PyThread_get_thread_ident() == main_thread.load(std::memory_order_relaxed))
    signals_.emplace([this] { return outside_.handlers_raise(); });
}

void raise_from_handlers() {
  if (PyErr_Occurred() != nullptr)
    throw py::error_already_set();
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
