#pragma once

#include <cstddef>

namespace peercache::client::test {

/// While this lives, the kernel refuses one descriptor of those that this thread adds to epolls of
/// `net::event_poll`: the one after `first` others, as if the user had no watch left.
class refused_epoll {
public:
  explicit refused_epoll(std::size_t first);
  ~refused_epoll();
  refused_epoll(const refused_epoll&) = delete;
  refused_epoll& operator=(const refused_epoll&) = delete;
};

} // namespace peercache::client::test
