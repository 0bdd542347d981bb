#pragma once

#include "common/log_limit.hpp"
#include "common/result.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace peercache::net {

/// Shakes hands with peers that connect to any port of a process, apart from the threads that serve
/// established connections: a stranger costs those threads neither time nor an entry. A refused
/// address causes one log line per minute.
///
/// Threads: `add` and `stop` any, `run` or `turn` the one thread that does the work. Ownership:
/// `add` takes the socket; a callback gets it back once TLS stands, otherwise it is closed here.
/// Callbacks are called and freed by the thread of `run`, all of them before it returns. Limits:
/// `open_max` connections, each for `patience`; further ones, and those after `stop`, are closed.
class tls_handshakes {
public:
  using clock = std::chrono::steady_clock;
  using on_established = std::function<void(unique_fd socket, tls_session session)>;

  static constexpr std::size_t open_max = 4096;
  static constexpr std::chrono::seconds patience{2};

  /// Makes the object. Fails only when the process may open no further descriptors.
  static result<std::unique_ptr<tls_handshakes>> create(std::shared_ptr<tls_context> context);

  /// Takes a connection; `done` gets it back once TLS stands. @param wanted the peers that may come
  /// in
  void add(unique_fd socket, on_established done, tls_peers wanted = tls_peers::members);
  /// Does the handshakes in the calling thread until `stop`.
  void run();
  /// Does what can be done without blocking, after a sleep of at most `at_most` for something to
  /// do. A driver that calls this does not call `run`; connections that are left are closed with
  /// this object.
  void turn(clock::duration at_most);
  void stop() noexcept;
  /// Number of connections whose handshake is neither done nor refused yet.
  std::size_t open() const noexcept { return open_.load(); }

private:
  struct connection {
    unique_fd socket;
    std::string address; ///< Address of the other side, for the log.
    on_established done;
    clock::time_point until;
    tls_peers wanted;
    std::optional<tls_session> session; ///< None until the other side has sent a byte.
  };

  tls_handshakes(std::shared_ptr<tls_context> context, event_poll events)
      : context_(std::move(context)), events_(std::move(events)) {}
  void take_new();
  void go_on(std::uint64_t id, clock::time_point now);
  void drop_late(clock::time_point now);
  void tell(const connection& refused, const std::string& why, clock::time_point now);

  const std::shared_ptr<tls_context> context_;
  event_poll events_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::size_t> open_{0};
  std::mutex lock_; ///< Guards `new_`, which other threads fill, and `full_lines_`.
  std::vector<connection> new_;
  log_limit full_lines_;
  std::unordered_map<std::uint64_t, connection> connections_;
  std::uint64_t next_id_ = 0;
  log_limit lines_;
};

} // namespace peercache::net
