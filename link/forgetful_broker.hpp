#pragma once

#include <caf/actor_clock.hpp>
#include <caf/behavior.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/connection_handle.hpp>
#include <caf/timespan.hpp>

#include <cstddef>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace peercache::link {

/// CAF's BASP broker, except that it forgets peers that are gone, closes accepted connections that
/// send nothing, sends no heartbeat where a message has just told the peer that this process lives,
/// and goes on to send where it did when another connection to the same peer ends. CAF closes
/// connections that fall silent (`connection-timeout`); a handshake has as long.
///
/// Threads: CAF's multiplexer, which runs all brokers.
class forgetful_broker final : public caf::io::basp_broker {
public:
  using basp_broker::basp_broker;

  caf::behavior make_behavior() override;
  void purge_state(const caf::node_id& gone) override;
  buffer_type& get_buffer(caf::io::connection_handle to) override;
  void flush(caf::io::connection_handle to) override;
  /// Handles messages of actors, and then sends at once what came of them.
  resume_result resume(caf::execution_unit* context, std::size_t messages_max) override;

  /// Notes that a connection was accepted just now.
  void expect_greeting(caf::io::connection_handle from);
  /// Call before CAF reads a piece that came on a connection: keeps a connection that this process
  /// has dialled beside one that its peer has dialled at the same time.
  void will_read(caf::io::connection_handle from, std::span<const char> piece);

private:
  void heartbeat(caf::actor_clock::time_point at, caf::timespan interval, caf::timespan patience);
  void connection_ended(caf::io::connection_handle ended);
  void close_silent();

  std::unordered_map<caf::io::connection_handle, caf::actor_clock::time_point> greeting_due_;
  /// When the last message was sent on a connection, if that was since the last heartbeats.
  std::unordered_map<caf::io::connection_handle, caf::actor_clock::time_point> spoken_to_;
  /// Accepted connections on which the peer has shaken hands, and not said that it sends on them.
  std::unordered_set<caf::io::connection_handle> unselected_;
  /// Connections whose next heartbeat is not sent; empty except while heartbeats are written.
  std::unordered_set<caf::io::connection_handle> spared_;
  /// Connections that have something to send at the end of `resume`.
  std::vector<caf::io::connection_handle> to_flush_;
  bool resumed_ = false; ///< `resume` is running.
  buffer_type unsent_;   ///< Takes the heartbeats that are not sent.
  caf::behavior of_caf_; ///< The message handlers of CAF's own broker.
};

} // namespace peercache::link
