#pragma once

#include <cstddef>

namespace peercache::client::test {

/// While this object lives, one epoll_ctl by which this thread adds a descriptor to a
/// `net::event_poll` fails, after `first` that succeed, as if the user had no watch left.
class refused_epoll {
public:
  explicit refused_epoll(std::size_t first);
  ~refused_epoll();
  refused_epoll(const refused_epoll&) = delete;
  refused_epoll& operator=(const refused_epoll&) = delete;
};

} // namespace peercache::client::test
