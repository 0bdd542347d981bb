#pragma once

#include "actors/directory/shared_shard.hpp"
#include "actors/serving/held_pool.hpp"
#include "actors/serving/lookup_connections.hpp"
#include "actors/serving/lookup_datagrams.hpp"
#include "actors/serving/lookup_relay_actor.hpp"
#include "common/ids.hpp"
#include "common/log_limit.hpp"
#include "common/result.hpp"
#include "net/socket.hpp"
#include "net/stream_socket.hpp"
#include "net/tls_arrivals.hpp"
#include "net/tls_handshakes.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace peercache::actors {

struct lookup_server_options {
  std::string host; ///< Numeric address.
  std::uint16_t port = 0;
  std::string cluster;
  incarnation inc; ///< Incarnation of this process.
  /// Shakes hands with strangers for TLS; null: connections are plain. Outlives the server.
  net::tls_handshakes* handshakes = nullptr;
  /// Whether look-ups may come by datagram too, at the same number of port.
  bool datagrams = true;
};

/// The parties that answer questions.
struct lookup_services {
  /// The directory's shard, from which look-ups are answered at once; null: each one is passed on.
  std::shared_ptr<shared_shard> shard;
  /// Holds pages for clients at once; nothing: holds are passed on.
  std::optional<held_pool> held;
  /// Passes a question on to an actor, whose answer comes with this ticket in
  /// `lookup_server::answers`. @param body as `link::read_question` has accepted it
  std::function<void(std::uint64_t ticket, link::member_question kind, std::string body)> pass_on;
};

/// The look-up port of a node: accepts connections (lookup_connections says which, and their
/// limits), and answers in its own thread what needs no actor: look-ups, holds and hellos. Users
/// wait for these, and each thread that they pass through costs as much as the wire. All else is
/// passed on. The answer to a hello is a pass for look-ups by datagram (lookup_datagrams), one turn
/// of which takes turns with the connections.
///
/// Threads: `run` is the server's thread; `port`, `answers` and `stop` belong to any, all else to
/// the owner. Ownership: `run` uses the services until it returns. Errors: a peer that breaks the
/// rules, or whose connection breaks, loses its connection and nothing else; its open questions'
/// answers are dropped. Limits: besides those of lookup_connections, `turn_bytes` of one connection
/// before the next one's turn, and `open_max` questions that were passed on, those of connections
/// that have ended included.
class lookup_server {
public:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;

  /// How long the thread polls after the last event before it sleeps, as long as events come that
  /// soon: after the first longer sleep it sleeps at once.
  static constexpr std::chrono::microseconds spin{5};
  static constexpr std::size_t turn_bytes = 64u << 10;
  static constexpr std::size_t open_max = 65'536;

  /// Opens the port; connections wait until `run`.
  static result<std::unique_ptr<lookup_server>> listen(const lookup_server_options& options);
  /// @pre `run` has returned, or was never called
  ~lookup_server();

  std::uint16_t port() const noexcept { return port_; }
  /// Where the answers to questions that were passed on go. May outlive the server.
  const std::shared_ptr<relayed_answers>& answers() const noexcept { return answers_; }

  /// Look-ups that came by datagram. May outlive the server.
  std::shared_ptr<const served_datagrams> served() const noexcept { return served_; }

  /// Serves until `stop`, then ends all connections.
  void run(lookup_services services);
  void stop() noexcept;

private:
  struct client {
    net::stream_socket socket;
    std::string out{};    ///< Bytes of answers.
    std::size_t sent = 0; ///< How many of `out` the kernel has taken.
    bool readable = true, writable = true;
    bool ending = false;  ///< An event has told that nothing comes behind what is to be received.
    bool is_ready = true; ///< Whether `ready_` has the connection.
  };
  /// A question that was passed on.
  struct open_question {
    std::uint64_t connection = 0;
    /// Number of the question; nothing: a look-up of a call.
    std::optional<std::uint32_t> number;
    link::member_question kind = link::member_question::look_up;
    std::size_t body_bytes = 0;
  };

  lookup_server(const lookup_server_options& options, net::event_poll events,
                net::unique_fd listener);
  void open_datagrams();
  /// Looks for arrivals and answers after events: that of a wake says that they are there.
  bool poll(time_point now);
  void wait(time_point now);
  void accept_waiting(time_point now);
  void begin(net::stream_socket socket, time_point now);
  bool take_events(time_point now);
  bool take_answers(time_point now);
  bool serve_datagrams(time_point now);
  bool serve_ready(time_point now);
  void serve(std::uint64_t id, time_point now);
  bool receive(std::uint64_t id, client& from, time_point now);
  std::optional<std::size_t> receive_some(std::uint64_t id, client& from);
  bool flush(std::uint64_t id, client& to, time_point now);
  void drop(std::uint64_t id);
  void drop_overdue(time_point now);
  void drop_greedy(time_point now);

  bool ask(std::uint64_t id, client& from, std::string question);
  bool ask_member(std::uint64_t id, client& from, std::string_view payload);
  bool pass_on(const open_question& open, std::string body);
  bool answer(const open_question& open, client& to, std::string_view body);
  std::optional<result<std::string>> look_up(std::string_view keys);

  const lookup_server_options options_;
  net::event_poll events_;
  std::span<const epoll_event> collected_; ///< Events that `wait` took and `poll` has not seen.
  net::unique_fd listener_;
  const std::uint16_t port_;
  const std::shared_ptr<net::tls_arrivals> arrivals_;
  const std::shared_ptr<relayed_answers> answers_;
  lookup_services services_;
  std::atomic<bool> stop_{false};

  const std::shared_ptr<served_datagrams> served_ = std::make_shared<served_datagrams>();
  std::optional<lookup_datagrams> datagrams_;
  bool datagrams_wait_ = false; ///< Datagrams may wait of which no event will tell.
  lookup_connections connections_;
  std::unordered_map<std::uint64_t, client> clients_; ///< As many as `connections_` knows.
  std::uint64_t last_id_ = 0;
  std::vector<std::uint64_t> ready_;
  std::unordered_map<std::uint64_t, open_question> open_; ///< By ticket.
  std::uint64_t last_ticket_ = 0;
  /// When to accept connections of which no event will tell: at once where more wait than were
  /// accepted in one turn, a little later where the process had no descriptor left.
  time_point accept_at_ = time_point::max();
  time_point look_at_ = time_point::max(); ///< When to look for connections that are overdue.
  std::vector<char> received_;
  std::vector<std::string> questions_;
  log_limit lines_;
};

} // namespace peercache::actors
