#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace peercache::metrics {

/// One connection of the HTTP port: takes the head of one request, then sends one answer, and ends.
/// Never blocks: a client that says nothing or takes nothing holds up nobody else.
/// Threads: none; the server's owner serializes. Ownership: closes its socket. Time: an argument.
/// Errors: `over`, as at a good end.
class http_connection {
public:
  using time_point = std::chrono::steady_clock::time_point;

  enum class state : std::uint8_t {
    reading, ///< The head is not complete.
    asked,   ///< A whole request is there: `answer` is next.
    sending,
    ending, ///< All is sent; the other side is to close first, so that it gets everything.
    over
  };
  struct patience {
    std::chrono::milliseconds head{2000}; ///< Time from the first to the last byte of a request.
    std::chrono::milliseconds send{2000}; ///< How long the other side may take no byte.
  };

  static constexpr std::size_t head_bytes_max = 16u << 10;

  /// @param fd a connected socket, non-blocking
  http_connection(int fd, const patience& with, time_point now);
  ~http_connection();
  http_connection(const http_connection&) = delete;
  http_connection& operator=(const http_connection&) = delete;

  /// Receives or sends what can be.
  state advance(time_point now);
  /// @pre `advance` said `asked`
  const std::string& request() const noexcept { return in_; }
  void answer(std::string bytes, time_point now);

  state where() const noexcept { return state_; }
  int fd() const noexcept { return fd_; }
  /// The events to poll(2) for.
  short events() const noexcept;
  /// When the connection is given up, unless something happens.
  time_point until() const noexcept { return until_; }

private:
  void receive();
  void send(time_point now);
  void discard();

  const int fd_;
  const patience patience_;
  state state_ = state::reading;
  time_point until_;
  std::string in_;
  std::string out_;
  std::size_t sent_ = 0; ///< How many bytes of `out_` are sent.
};

} // namespace peercache::metrics
