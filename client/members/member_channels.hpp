#pragma once

#include "client/members/datagram_owners.hpp"
#include "client/members/member_channel.hpp"
#include "common/ids.hpp"
#include "discovery/view.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// A connection from this client to the look-up port of each member: it tells whether the member is
/// there, and carries all questions to it but the look-ups and holds of calls, which have
/// connections of their own (client/lookup/lookup_channels.hpp). So clients speak no protocol of
/// CAF's with the nodes of other hosts.
///
/// Threads: `run` has a thread of its own, which calls the listener and the takers of answers; all
/// other functions in any. Errors: a question to a member without a connection ends at once.
/// Bounds: a connection for each member that was opened; `orders_max` orders wait for the thread,
/// further questions end in the asking thread.
class member_channels {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Called once when a connection to a member stands, and when there is none: the connection has
  /// ended or could not be made. Not called for connections that `follow` has closed, or `open`
  /// because the member has another address now.
  using listener = std::function<void(const incarnation&, bool stands)>;

  static constexpr std::size_t orders_max = 16'384;

  /// Without a free descriptor there are no connections, and the log says so.
  /// @param tls null: the connections are plain
  /// @param by_datagram whether look-ups may travel by datagram to members that give a pass
  member_channels(std::string cluster, std::shared_ptr<net::tls_context> tls,
                  bool by_datagram = true);

  /// Sets the listener. @pre before `run`
  void listen(listener hears) { hears_ = std::move(hears); }
  /// Connects to a member, if there is no connection to it at this address yet. One to another
  /// address is closed first.
  void open(const discovery::member& whom);
  /// Closes the connections to nodes that are not in the view.
  void follow(const discovery::view& view);
  void ask(const incarnation& whom, member_request request);
  /// The members with a connection that stands, as far as they answer datagrams.
  datagram_owners& datagrams() noexcept { return datagrams_; }

  /// Moves all connections on until `stop`. Questions that were asked before `stop` are sent as far
  /// as the sockets take them at once.
  void run();
  void stop() noexcept;

private:
  struct entry {
    entry(const discovery::member& whose, net::stream_socket socket, std::string_view greeting,
          time_point now)
        : member(whose.inc), host(whose.host), port(whose.lookup_port),
          channel(whose.name, std::move(socket), greeting, now) {}
    incarnation member;
    std::string host; ///< The address to which the channel was opened.
    std::uint16_t port;
    member_channel channel;
    bool told = false; ///< Whether `hears_` was told that the connection stands.
  };

  /// Hands an order to the thread of `run`; false when too many orders wait.
  bool post(std::function<void(time_point)> order);
  void do_open(const discovery::member& whom, time_point now);
  void do_orders(time_point now);
  void step(std::uint64_t id, time_point now);
  void close(std::uint64_t id);
  void look_at_clock(time_point now);

  const std::string cluster_;
  const std::shared_ptr<net::tls_context> tls_;
  datagram_owners datagrams_;
  /// Waits for all sockets; none: the process had no descriptor left.
  std::optional<net::event_poll> poll_;
  listener hears_;
  std::atomic<bool> stopped_{false};
  std::mutex lock_; ///< Guards the orders, which come from any thread.
  std::vector<std::function<void(time_point)>> orders_;
  // Only the thread of `run` uses the members below.
  /// The connections, by the id of their events.
  std::unordered_map<std::uint64_t, entry> channels_;
  std::unordered_map<incarnation, std::uint64_t> ids_;
  std::uint64_t last_id_ = 0;
  time_point next_due_ = time_point::max(); ///< No channel is due before this time.
};

} // namespace peercache::client
