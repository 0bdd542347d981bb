#include "cli/held_signals.hpp"

#include <initializer_list>
#include <unistd.h>

namespace peercache::cli {

held_signals::held_signals() {
  ::sigemptyset(&held_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    ::sigaddset(&held_, number);
  ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
}

held_signals::~held_signals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool held_signals::came() const {
  sigset_t waiting;
  if (::sigpending(&waiting) != 0)
    return false;
  return ::sigismember(&waiting, SIGINT) == 1 || ::sigismember(&waiting, SIGTERM) == 1 ||
         ::sigismember(&waiting, SIGHUP) == 1;
}

void held_signals::wait() const {
  int number = 0;
  if (!came() && ::sigwait(&held_, &number) == 0)
    ::kill(::getpid(), number); // Makes the signal pending again that `sigwait` took.
}

} // namespace peercache::cli
