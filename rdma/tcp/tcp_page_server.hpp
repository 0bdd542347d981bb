#pragma once

#include "common/log_limit.hpp"
#include "common/result.hpp"
#include "net/tls_arrivals.hpp"
#include "rdma/page_source.hpp"
#include "rdma/tcp/tcp_options.hpp"
#include "rdma/tcp/tcp_server_session.hpp"

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

namespace peercache::rdma {

struct tcp_page_server_stats {
  std::uint64_t accepted = 0;
  /// Connections that were closed at once because `connections_max` were open.
  std::uint64_t turned_away = 0;
  /// Connections that said a verbs hello and went to `on_verbs_hello`.
  std::uint64_t given_away = 0;
  std::uint64_t reaped = 0; ///< Connections that the server ended: no hello, too slow, or idle.
  std::uint64_t payloads = 0;
  std::uint64_t bytes_sent = 0;
};

/// Serves the pages of one pool, or rows of memory under leases, to TCP data planes, straight from
/// the memory, and gives connections of verbs data planes away (`on_verbs_hello`).
///
/// Under TLS (`handshakes`) a connection becomes a session only after its handshake, when both
/// sides have proved who they are.
///
/// Threads: `poll`, `wait` and all else belong to the one thread that runs the server; `wake` is
/// for any. Starts none. Ownership: what is served is lent and outlives the server. A page of a
/// pool is pinned while its answer is sent. Errors: a faulty peer loses its connection. Limits:
/// connections, pinned bytes, 16 KiB of requests per accepted connection; requests above a limit
/// wait in the sockets. The session of a reader that takes its answer too slowly ends, sooner when
/// other readers wait for the bytes that it pins.
class tcp_page_server {
public:
  ~tcp_page_server() { arrivals_->close(); }
  tcp_page_server(const tcp_page_server&) = delete;
  tcp_page_server& operator=(const tcp_page_server&) = delete;

  static result<std::unique_ptr<tcp_page_server>> listen(const tcp_page_server_options& opts,
                                                         page_source& source) {
    return listen(opts, served_memory{&source, nullptr});
  }
  static result<std::unique_ptr<tcp_page_server>> listen(const tcp_page_server_options& opts,
                                                         const served_spans& spans) {
    return listen(opts, served_memory{nullptr, &spans});
  }

  /// Accepts, receives and sends what is possible without blocking. Returns true when something
  /// moved.
  bool poll(clock::time_point now);
  /// Sleeps until there is something to poll, `wake` is called, or `at_most` has passed.
  void wait(clock::duration at_most);
  void wake() noexcept { events_.wake(); }

  std::uint16_t port() const { return net::local_port(listener_); }
  /// Connections that are served, without those whose TLS handshake is under way.
  std::size_t connections() const noexcept { return sessions_.size(); }
  std::uint64_t pinned_bytes() const noexcept { return shared_.pins.used(); }
  tcp_page_server_stats stats() const noexcept;

private:
  static result<std::unique_ptr<tcp_page_server>> listen(const tcp_page_server_options& opts,
                                                         const served_memory& what);
  tcp_page_server(const tcp_page_server_options& opts, const served_memory& what,
                  net::event_poll events, net::unique_fd listener);

  void accept_waiting(clock::time_point now);
  bool take_arrivals(clock::time_point now);
  void begin_session(net::stream_socket socket, clock::time_point came_at, clock::time_point now);
  bool take_events(clock::time_point now);
  bool run_sessions(clock::time_point now);
  void give_away(tcp_server_session& session);
  void reap(clock::time_point now);
  static clock::time_point look_at(const tcp_server_session& session, clock::time_point now);
  clock::time_point next_reap(clock::time_point now) const;
  void make_pin_room(clock::time_point now);

  tcp_server_state shared_;
  net::event_poll events_;
  net::unique_fd listener_;
  /// Connections whose TLS handshake has ended; the handshakes' thread puts them in.
  const std::shared_ptr<net::tls_arrivals> arrivals_;
  std::span<const epoll_event> collected_; ///< Events that `wait` took, for the next `poll`.
  /// The listener may have more connections: there were more than one turn accepts, or no
  /// descriptor was left.
  bool accept_again_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<tcp_server_session>> sessions_;
  std::vector<std::uint64_t> ready_;
  /// Ids of sessions that wait until fewer bytes are pinned, oldest first.
  std::vector<std::uint64_t> wants_pin_room_;
  std::uint64_t next_id_ = 1;
  clock::time_point reap_at_{};
  log_limit lines_;
  tcp_page_server_stats stats_;
};

} // namespace peercache::rdma
