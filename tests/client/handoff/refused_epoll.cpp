#include "tests/client/handoff/refused_epoll.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <optional>
#include <sys/epoll.h>

namespace {

thread_local std::optional<std::size_t> adds_left;

/// Counts a descriptor that is added; returns whether it is the one to refuse.
bool is_refused() noexcept {
  if (!adds_left)
    return false;
  if (*adds_left == 0) {
    adds_left.reset();
    return true;
  }
  --*adds_left;
  return false;
}

} // namespace

extern "C" int epoll_ctl(int poll, int what, int descriptor, epoll_event* event) noexcept {
  static const auto libcs = reinterpret_cast<decltype(&epoll_ctl)>(::dlsym(RTLD_NEXT, "epoll_ctl"));
  // Only descriptors of ours are refused. CAF's, which are not edge-triggered, end the process if
  // they are refused.
  const bool ours = what == EPOLL_CTL_ADD && (event->events & EPOLLET) != 0;
  if (ours && is_refused()) {
    errno = ENOSPC;
    return -1;
  }
  return libcs(poll, what, descriptor, event);
}

namespace peercache::client::test {

refused_epoll::refused_epoll(std::size_t first) {
  adds_left = first;
}

refused_epoll::~refused_epoll() {
  adds_left.reset();
}

} // namespace peercache::client::test
