#pragma once

#include "common/result.hpp"
#include "handoff/links/event_batch.hpp"
#include "handoff/links/link_event.hpp"
#include "handoff/links/link_options.hpp"
#include "handoff/links/peer_link.hpp"
#include "handoff/worker_address.hpp"
#include "net/socket.hpp"
#include "net/tls_arrivals.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::handoff {

struct link_stats {
  std::uint64_t accepted = 0;
  std::uint64_t joined = 0;
  std::uint64_t lost = 0; ///< Connections whose end was one `peer_lost`.
  /// Strangers that were displaced by new strangers, or came when `links_max` links had joined.
  std::uint64_t turned_away = 0;
};

/// The connections of one worker to workers of the other side: one listener, connections that
/// others begin and that this worker begins (`connect`), hello and beats. Commands in, events out.
///
/// A `peer_id` names a connection and not a process. Two workers that connect to each other have
/// two connections, each of which keeps the order of its messages; a worker that comes back is
/// another process, and so another peer. The first event of a peer is `peer_joined`, or `peer_lost`
/// if it never joins; exactly one `peer_lost` is the last event of each peer that has joined or
/// that `connect` has returned, unless `refuse` or `close` has ended the connection.
///
/// Under TLS (`link_options::tls`) a connection that a peer begins appears here only after its
/// handshake, when both sides have proved who they are.
///
/// Threads: any thread may call `wake`; all else is for the thread that owns the links. Starts
/// none. Only `wait` and `sleep` block. Time is an argument. What has arrived is taken before a
/// peer is found silent, since this process may not have been running for a while. Errors: whatever
/// a peer does, at worst its own connection ends. Bounds: `link_options`.
class worker_links {
public:
  using time_point = peer_link::time_point;

  /// Errors: `refused` when the address is open to other hosts and `insecure_cluster` is off;
  /// `io_failed`, `invalid_argument`: the kernel does not let the worker listen there, or the name
  /// of its cluster is too long or not printable (`hello::cluster`).
  /// @param self the hello that this worker sends to its peers
  static result<std::unique_ptr<worker_links>> listen(link_options opts, hello self);
  ~worker_links() { arrivals_->close(); }
  worker_links(const worker_links&) = delete;
  worker_links& operator=(const worker_links&) = delete;

  /// Returns the peer at this address: that of an open connection which an earlier `connect` has
  /// begun, else that of a new connection, which `peer_joined` or `peer_lost` will name. Errors,
  /// without an event: `closed`, `refused` (`links_max`), `invalid_argument`, `io_failed` (epoll
  /// refuses the socket), and `unreachable` when the kernel says so at once.
  ///
  /// @param meant the process that must answer; a connection to another process ends
  result<peer_id> connect(const worker_address& to, std::optional<incarnation> meant,
                          time_point now);
  /// Queues a message for the next `poll`; a message to a peer that is lost is dropped.
  /// @pre the peer has joined
  void send(peer_id to, const message& what, time_point now);
  /// Does what `send` does, and gives the kernel at once what it takes. True when the next `poll`
  /// has something to do: the owner must not sleep before that `poll`.
  bool send_at_once(peer_id to, const message& what, time_point now);
  /// Ends the connection and tells the peer the reason; no event follows.
  void refuse(peer_id peer, const std::string& reason, time_point now);

  /// Accepts, receives and sends what is possible without blocking. Returns what has happened since
  /// the last call, in order, up to `link_options::events_bytes_max`: the next `poll` goes on with
  /// the links that had no turn, and `wait` does not sleep until it has.
  std::vector<link_event> poll(time_point now);
  /// Sleeps until `poll` has something to do, `at_most` has passed, or `wake` is called; returns at
  /// once when `wake` was called since the last `wait`, even if `poll` was called in between.
  /// @pre at_most >= 0
  void wait(time_point now, std::chrono::nanoseconds at_most) { sleep(sleep_time(now, at_most)); }
  /// First half of `wait`, for an owner that lets other threads send between the two halves.
  /// Returns how long `sleep` may last. A thread that sends between the two halves calls `wake` if
  /// `send_at_once` returns true.
  std::chrono::nanoseconds sleep_time(time_point now, std::chrono::nanoseconds at_most);
  /// Second half of `wait`: sleeps without touching members that other methods use.
  void sleep(std::chrono::nanoseconds at_most);
  void wake() const noexcept { events_poll_.wake(); }
  /// Lets `wait` return also when this descriptor becomes readable. False when epoll refuses it.
  bool also_wait_for(int descriptor) noexcept;

  /// Ends listener and connections, without events. What was queued is sent if the kernel takes it
  /// at once.
  void close();

  std::uint16_t port() const { return net::local_port(listener_); }
  std::size_t connections() const noexcept { return links_.size(); }
  std::size_t strangers() const noexcept;
  const link_stats& stats() const noexcept { return stats_; }

private:
  struct entry {
    template <class... Args>
    explicit entry(Args&&... args) : link(std::forward<Args>(args)...) {}
    peer_link link;
    std::optional<worker_address> dialed;
    bool ready = false; ///< `ready_` has the id.
  };
  using entries = std::map<peer_id, entry>; ///< Links by id, the oldest first.

  worker_links(link_options opts, hello self, net::event_poll events, net::unique_fd listener);

  entries::iterator add(net::stream_socket socket, peer_link::origin from, time_point now);
  void note_events(time_point now);
  void accept_waiting(time_point now);
  void take_arrivals(time_point now);
  void begin_stranger(net::stream_socket socket, time_point now);
  void make_room_for_stranger();
  net::socket_options socket_options() const noexcept;
  bool is_full() const noexcept;
  std::string limit_reached() const;
  void run_ready(time_point now);
  void check_times(time_point now);
  void step(entries::iterator at, time_point now);
  /// Brings `dialed_`, `ready_` and `timers_at_` up to date after something has happened to a link,
  /// and destroys a link that is over.
  void settle(entries::iterator at);
  void mark_ready(peer_id id, entry& at);

  peer_link::own_side own_;
  net::event_poll events_poll_;
  net::unique_fd listener_;
  /// Connections whose TLS handshake is done, from the threads of the handshakes.
  const std::shared_ptr<net::tls_arrivals> arrivals_;
  std::span<const epoll_event> collected_; ///< Events that `wait` took, for the next `poll`.
  entries links_;
  std::map<worker_address, peer_id> dialed_; ///< Open connections that this worker has begun.
  std::vector<peer_id> ready_; ///< Links that may move without a new event, the next one first.
  event_batch events_;         ///< Events that the next `poll` returns.
  std::uint64_t next_id_ = 1;
  /// Time before which no timer of a link ends.
  time_point timers_at_ = time_point::max();
  /// Time of the next `accept` when connections may wait at the listener of which no new event will
  /// tell.
  std::optional<time_point> accept_at_;
  bool woken_ = false; ///< `wake` was called, and no `wait` has returned for it.
  bool closed_ = false;
  link_stats stats_;
};

} // namespace peercache::handoff
