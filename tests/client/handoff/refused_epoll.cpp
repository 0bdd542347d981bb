#include "tests/client/handoff/refused_epoll.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <optional>
#include <sys/epoll.h>

namespace {

thread_local std::optional<std::size_t> adds_left;

/// Counts one more descriptor that is added to an epoll. Returns whether the test wants this one
/// refused.
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
  // Only PeerCache's descriptors, which are edge-triggered, are refused: CAF would end the process
  // if one of its own were.
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
