#pragma once

#include "net/socket.hpp"

#include <cstddef>
#include <sys/types.h>
#include <vector>

namespace peercache {

/// TCP connections to one process that answers fixed bytes to fixed bytes, on loopback: questions
/// to many owners as bare system calls, which is what this machine's sockets cost.
class raw_connections {
public:
  static constexpr std::size_t question_bytes = 36; ///< A frame with one key.
  static constexpr std::size_t answer_bytes = 57;   ///< A frame with one location.

  /// Forks the process that answers. @pre the calling process has one thread
  explicit raw_connections(std::size_t count);
  /// Kills that process.
  ~raw_connections();
  raw_connections(const raw_connections&) = delete;
  raw_connections& operator=(const raw_connections&) = delete;

  /// Asks on the next `count` connections, then waits until all have answered.
  /// @pre `count` connections exist
  void ask(std::size_t count);

private:
  [[noreturn]] static void serve(const net::unique_fd& listener);

  std::vector<net::unique_fd> sockets_;
  net::event_poll events_;
  std::size_t next_ = 0;
  pid_t process_ = 0;
};

} // namespace peercache
