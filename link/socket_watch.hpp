#pragma once

#include "common/result.hpp"
#include "net/socket.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace peercache::link {

/// Waits for news of sockets, for an actor that must not wait itself.
///
/// Threads: `add`, `remove` and `look_at` are the owner's; `run` is in a thread of this object's,
/// which sleeps until a socket has news or a time has come. Ownership: sockets stay the owner's.
/// Errors: without a free descriptor or thread there is no watch; a socket that the kernel does not
/// take is not watched.
class socket_watch {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// @param has_news called in the thread whenever a socket may have news or the time of `look_at`
  /// has come; must not block
  static result<std::unique_ptr<socket_watch>> begin(std::function<void()> has_news);
  /// Ends the thread.
  ~socket_watch();
  socket_watch(const socket_watch&) = delete;
  socket_watch& operator=(const socket_watch&) = delete;

  /// Watches a socket until it is closed; news from before this call is reported, too. False: the
  /// socket is not watched.
  bool add(int fd) noexcept;
  /// Stops watching a socket, which stays open. @pre the socket was added
  void remove(int fd) noexcept { poll_.remove(fd); }
  /// Sets the time at which `has_news` is called; it replaces the time of an earlier call.
  void look_at(time_point at) noexcept;

private:
  socket_watch(net::event_poll poll, std::function<void()> has_news);
  void run();

  net::event_poll poll_;
  const std::function<void()> has_news_;
  std::atomic<time_point> look_at_{time_point::max()};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

} // namespace peercache::link
