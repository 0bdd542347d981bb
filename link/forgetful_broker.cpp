#include "link/forgetful_broker.hpp"

#include "link/beats.hpp"
#include "link/protocol/atoms.hpp"
#include "link/protocol/internal.hpp"
#include "link/scribe.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/io/all.hpp>

#include <chrono>
#include <mutex>
#include <utility>

namespace peercache::link {

namespace {

/// Longest time from accepting a connection until a whole header of a message has come.
constexpr std::chrono::seconds greeting_patience{2};
constexpr std::chrono::milliseconds look_for_silent_every{250};

} // namespace

caf::behavior forgetful_broker::make_behavior() {
  of_caf_ = basp_broker::make_behavior();
  return caf::message_handler{
      [this](beat_atom, from_here) {
        close_silent();
        if (!greeting_due_.empty())
          beat_within(this, look_for_silent_every);
      },
      [this](caf::delete_atom, caf::io::connection_handle ended) { connection_ended(ended); },
      [this](caf::tick_atom, caf::actor_clock::time_point at, caf::timespan interval,
             caf::timespan patience) { heartbeat(at, interval, patience); }}
      .or_else(of_caf_);
}

void forgetful_broker::expect_greeting(caf::io::connection_handle from) {
  if (greeting_due_.empty()) // While no connection owes a greeting, no beat is planned.
    beat_within(this, look_for_silent_every);
  greeting_due_[from] = clock().now() + greeting_patience;
}

void forgetful_broker::purge_state(const caf::node_id& gone) {
  basp_broker::purge_state(gone);
  // A helper actor may still wait for an answer of the peer that is gone, so it is killed.
  if (const auto helper = spawn_servers.find(gone); helper != spawn_servers.end()) {
    caf::anon_send_exit(helper->second, caf::exit_reason::kill);
    spawn_servers.erase(helper);
  }
}

forgetful_broker::buffer_type& forgetful_broker::get_buffer(caf::io::connection_handle to) {
  if (!spared_.contains(to))
    return basp_broker::get_buffer(to);
  unsent_.clear();
  return unsent_;
}

void forgetful_broker::flush(caf::io::connection_handle to) {
  if (spared_.erase(to) != 0)
    return;
  spoken_to_.insert_or_assign(to, clock().now());
  if (!resumed_)
    basp_broker::flush(to);
  else if (to_flush_.empty() || to_flush_.back() != to)
    to_flush_.push_back(to);
}

forgetful_broker::resume_result forgetful_broker::resume(caf::execution_unit* context,
                                                         std::size_t messages_max) {
  resumed_ = true;
  const auto result = basp_broker::resume(context, messages_max);
  resumed_ = false;
  for (const auto& to : to_flush_)
    if (auto found = by_id(to))
      if (auto* ours = dynamic_cast<scribe*>(&*found))
        ours->flush_now();
  to_flush_.clear();
  return result;
}

/// Two processes may dial each other at the same time. CAF closes a dialled connection where one
/// that was accepted stands, so both may close theirs and have none. A dialled one is redundant
/// only when the peer has said that it sends on the accepted one: then the peer does not close that
/// one.
void forgetful_broker::will_read(caf::io::connection_handle from, std::span<const char> piece) {
  using caf::io::basp::message_type;
  const auto known = ctx.find(from);
  if (known == ctx.end() || known->second.cstate != caf::io::basp::await_payload)
    return;
  const auto& header = known->second.hdr;
  if (header.operation == message_type::client_handshake) {
    if (header.has(caf::io::basp::header::select_connection_flag))
      unselected_.erase(from);
    else
      unselected_.insert(from);
  } else if (header.operation == message_type::server_handshake) {
    unselected_.erase(from); // The number of a connection that has ended may come again.
    caf::binary_deserializer handshake{context(), piece.data(), piece.size()};
    caf::node_id peer;
    if (handshake(peer))
      return;
    auto& routes = instance.tbl();
    // Without a connection in use, CAF uses the dialled one, and tells the peer so.
    if (const auto used = routes.lookup_direct(peer); used && unselected_.contains(*used)) {
      const std::lock_guard guard(routes.mtx_);
      routes.direct_by_nid_.erase(peer);
    }
  }
}

/// Lets CAF forget a connection that has ended, and goes on to send to the peer where it did. CAF
/// would choose any of the connections that are left, even where it did not send on the ended one.
/// A process that dials a node several times at once closes all connections but the one that it has
/// selected, and what is sent on one of the others is lost.
void forgetful_broker::connection_ended(caf::io::connection_handle ended) {
  auto& routes = instance.tbl();
  const auto peer = routes.lookup_direct(ended);
  const auto used = peer ? routes.lookup_direct(peer) : caf::none;
  unselected_.erase(ended);
  auto message = caf::make_message(caf::delete_atom_v, ended);
  of_caf_(message);
  // A peer may have named another one's route, so the connection in use need not be open.
  if (used && *used != ended && routes.lookup_direct(*used) == peer)
    routes.select_alternative(*used, peer);
}

/// Lets CAF send heartbeats to peers to which nothing was sent since the heartbeats before, and
/// close connections that are silent for `patience`. CAF writes one heartbeat to each peer before
/// it does anything else, so what it writes first to a peer is the heartbeat. The first heartbeat
/// is moved to a multiple of `interval`, at which other beats of the process come as well; CAF adds
/// `interval` for each further one.
void forgetful_broker::heartbeat(caf::actor_clock::time_point at, caf::timespan interval,
                                 caf::timespan patience) {
  if (const auto past = at.time_since_epoch() % interval; past != caf::timespan::zero()) {
    const auto next = at - past + interval;
    scheduled_send(this, next, caf::tick_atom_v, next, interval, patience);
    return;
  }
  // A message of the first half of the interval spares none: the peer would hear nothing for too
  // much of its patience.
  for (const auto& [to, when] : std::exchange(spoken_to_, {}))
    if (clock().now() - when <= interval / 2 && instance.tbl().lookup_direct(to))
      spared_.insert(to);
  // For a connection that CAF makes, no time is set until the peer's first bytes come, and CAF
  // would take it for one that was silent since the machine started.
  for (auto& [to, known] : ctx)
    if (known.last_seen == caf::actor_clock::time_point{})
      known.last_seen = clock().now();
  auto tick = caf::make_message(caf::tick_atom_v, at, interval, patience);
  of_caf_(tick);
  spared_.clear();
  spoken_to_.clear(); // A heartbeat that was sent spares none.
}

/// Closes accepted connections on which no whole header of a message has come.
void forgetful_broker::close_silent() {
  std::erase_if(greeting_due_, [this](const auto& entry) {
    const auto& [from, due] = entry;
    if (!valid(from) || ctx.count(from) != 0)
      return true;
    if (due > clock().now())
      return false;
    close(from);
    return true;
  });
}

} // namespace peercache::link
