#pragma once

#include "common/interruption.hpp"
#include "python/binding/object.hpp"

#include <chrono>
#include <cxxabi.h>
#include <optional>

namespace peercache::python {

/// Holds the calling thread, which has outlived the interpreter, until the process is gone.
[[noreturn]] void park() noexcept;

/// Runs `work`, which calls Python code. Once the interpreter is gone, CPython before 3.14 ends a
/// thread that wants the GIL by pthread_exit. That unwinds the stack through our destructors, which
/// an exception may not leave, and which would give objects of Python back without the GIL. So such
/// a thread is parked before its stack unwinds, as CPython itself does from 3.14 on.
template <class Work>
decltype(auto) or_park(Work&& work) {
  try {
    return work();
  } catch (abi::__forced_unwind&) {
    park();
  }
}

/// Gives the GIL up for as long as this lives; a thread that wants it back after the interpreter's
/// end is parked.
class without_gil {
public:
  without_gil() noexcept;
  ~without_gil();
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;

  /// Takes the GIL back and runs the handlers of signals that have come since. Returns whether a
  /// handler has raised; its exception is then the thread's.
  /// @pre the thread has no exception
  bool handlers_raise();

private:
  PyThreadState* state_;
};

/// Notes which thread is Python's main thread, the only one that runs handlers of signals.
void set_main_thread(unsigned long ident) noexcept;

/// Gives the GIL up for a call of a client. In Python's main thread handlers of signals run during
/// the call, every `interruption::interval`; once a handler has raised, the call ends as if its
/// client were closed. Call `raise_from_handlers` after the end of this object.
class outside_call {
public:
  outside_call();

private:
  without_gil outside_;
  std::optional<interruption> signals_; ///< None in other threads than the main thread.
};

/// Throws what a handler of a signal has raised during an `outside_call`, if anything. Needs the
/// GIL.
void raise_from_handlers();

/// Gives the GIL up and sleeps for `pause`. Call it only from threads that nobody waits for.
void rest_without_gil(std::chrono::milliseconds pause);

/// Records that the interpreter ends, as the package's exit hook announces it: clients that are
/// opened afterwards are refused. Threads: any.
void announce_end() noexcept;
bool end_announced() noexcept;

/// Waits until no thread but the caller runs our code without the GIL. False: some still do at
/// `until`.
/// @pre the calling thread has given the GIL up itself
bool wait_for_other_threads(std::chrono::steady_clock::time_point until);

/// Makes `exit` end the process at once, with its own status and output, but without C++'s static
/// destructors: for when threads of this library still use static objects.
void leave_without_destructors();

/// Forgets, in a forked child, the parent's threads that ran our code.
void forget_other_threads() noexcept;

} // namespace peercache::python
