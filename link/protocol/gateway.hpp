#pragma once

#include "common/limits.hpp"
#include "link/protocol/calls_wire.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/history.hpp"
#include "link/protocol/membership.hpp"

namespace peercache::link {

/// Version of the messages between processes; every change of a message raises it.
inline constexpr std::uint32_t wire_version = 27;

/// The client's end of a session: what a client process hears from the gateway of its host.
using session_listener = caf::typed_actor<
    // Gateway: tells the cluster's new view: whole, or as a difference to the view that it told
    // this session before (discovery/view_difference.hpp). After a difference that cannot be
    // applied, the session asks for the whole view.
    caf::reacts_to<view_atom, std::string>,
    // The session, to itself: reconnects, and reports its totals to the gateway.
    caf::reacts_to<beat_atom, from_here>>;

/// The answer to a hello: the node that answers, and its actors.
struct peer_welcome {
  peer_welcome() = default;
  std::string member; ///< The node that answers, as an encoded discovery::member.
  directory_actor directory;
  membership_actor membership;
  /// The port where the node's directory answers clients (actors/serving/lookup_server.hpp).
  std::uint16_t lookup_port = 0;
  template <class Inspector>
  friend auto inspect(Inspector& f, peer_welcome& x) {
    return f(x.member, x.directory, x.membership, x.lookup_port);
  }
};

/// The answer to a new session: what a client process of this host needs to use the pool.
struct session_welcome {
  session_welcome() = default;
  std::uint64_t session = 0;    ///< Names the session in later messages.
  std::uint32_t lock_index = 0; ///< Index of the pool's lock that the client holds while it lives.
  std::string pool_name;        ///< Name of the pool's POSIX shared memory object.
  std::string member;           ///< Encoded discovery::member of this node.
  std::string view;             ///< The node's view, as an encoded discovery::view.
  /// Number of owners of each key.
  std::uint32_t directory_replicas = limits::directory_replicas_default;
  std::uint8_t mirror = 0; ///< pool.mirror: which pages of other hosts are mirrored.
  template <class Inspector>
  friend auto inspect(Inspector& f, session_welcome& x) {
    return f(x.session, x.lock_index, x.pool_name, x.member, x.view, x.directory_replicas,
             x.mirror);
  }
};

/// The GATEWAY protocol: the one actor that a node publishes. The comment at a message begins with
/// who sends it.
using gateway_actor = caf::typed_actor<
    // Nodes and clients: wire version, cluster name, name of the sender. Refused when version or
    // cluster differ.
    caf::replies_to<hello_atom, std::uint32_t, std::string, std::string>::with<peer_welcome>,
    // Clients of this host: open a session; views go to the given actor. The gateway notices the
    // end of that actor by itself.
    caf::replies_to<session_atom, std::string, session_listener>::with<session_welcome>,
    // A session: reserve slots for pages of these lengths.
    caf::replies_to<reserve_atom, std::uint64_t, std::string>::with<std::string>,
    // A session: commits filled slots, with a commit_mode and the lengths to reserve for next time.
    // Answers one page_status byte per page, and slots.
    caf::replies_to<commit_atom, std::uint64_t, std::string, std::uint8_t,
                    std::string>::with<std::string, std::string>,
    // A session that ends in good order: tells that its client no longer writes to any slot.
    caf::reacts_to<leave_atom, std::uint64_t>,
    // A session: gives back reserved slots that it will never fill.
    caf::reacts_to<abandon_atom, std::uint64_t, std::string>,
    // A session: tells the totals of its client so far.
    caf::reacts_to<report_atom, std::uint64_t, metrics::samples>,
    // A session: tells what its client has asked for and stored lately.
    caf::reacts_to<calls_atom, std::uint64_t, call_report>,
    // A session: tells which blocks its engine has stored on its GPU and evicted (encoded
    // gpu_report). Answers false when the report is malformed, or too many sessions tell of blocks.
    caf::replies_to<gpu_atom, std::uint64_t, std::string>::with<bool>,
    // Look-up relay, for clients anywhere: tell a sample of the pages (used_page) that they READ
    // from this node's pool. Answers nothing, when the pool has counted them.
    caf::replies_to<used_atom, std::string, from_here>::with<std::string>,
    // Look-up relay, for clients anywhere: keep these pages (used_page) of this node's pool from
    // eviction, for the holder of this tag and for this many milliseconds; 0: the holder no longer
    // needs them. Answers one storage::hold_outcome byte per page.
    caf::replies_to<hold_atom, std::string, std::uint32_t, std::uint32_t,
                    from_here>::with<std::string>,
    // Look-up relay, for clients anywhere: remove the pages of these keys from this node's pool.
    caf::replies_to<remove_atom, std::string, from_here>::with<std::string>,
    // Look-up relay, for clients anywhere: bring pages of this node's disk into its pool (PROMOTER
    // protocol).
    caf::replies_to<promote_atom, std::string, std::uint32_t, from_here>::with<std::string>,
    caf::replies_to<warm_atom, std::string, from_here>::with<std::string>,
    // CLI: read this node's disk tier and compare checksums; evict until this many bytes of the
    // tier are free. Both messages are answered when the work has begun; false if there is no disk
    // tier.
    caf::replies_to<verify_atom>::with<bool>,
    caf::replies_to<evict_atom, std::uint64_t>::with<bool>,
    // CLI and metrics: ask for the state of this node.
    caf::replies_to<status_atom>::with<node_report>,
    // Nodes and CLI: ask for the points and the events of this node's history that follow these
    // numbers; 0 and 0: all of it.
    caf::replies_to<history_atom, std::uint64_t, std::uint64_t>::with<history_report>,
    // CLI: asks for the clients of this node.
    caf::replies_to<list_atom>::with<sessions_report>,
    // CLI: asks what the clients of this node have asked for and stored lately, including clients
    // that ended since.
    caf::replies_to<calls_atom>::with<calls_report>,
    // CLI: asks how pages with these prefixes (packed u64) left this node, and which of them its
    // shard has forgotten because their holder is gone.
    caf::replies_to<lost_atom, std::string>::with<lost_report>,
    // CLI: asks for the largest and most-read pages of this node's pool, and for its spaces.
    caf::replies_to<census_atom>::with<page_census>,
    // CLI: set this log level (log.level); an empty text only asks. Answers the level in force; an
    // unknown word changes nothing.
    caf::replies_to<log_atom, std::string>::with<std::string>,
    // CLI, and a session that cannot apply a difference: ask for the encoded view.
    caf::replies_to<view_atom>::with<std::string>,
    // Look-up relay, for clients anywhere: asks for the view, naming the encoded stamp of a view
    // that the client knows, or no stamp. Answers the view, or the difference to it from that view.
    caf::replies_to<view_atom, std::string>::with<std::string>,
    // CLI, at the leader: the member of this name is gone for good. Answers whether this node leads
    // and a member of this name is gone; a later view no longer says so.
    caf::replies_to<forget_atom, std::string>::with<bool>,
    // CLI and the process itself: leave the cluster in good order. Answers when everything is
    // withdrawn.
    caf::replies_to<drain_atom>::with<bool>,
    // CLI: with `true` the node gives its keys away and takes no new pages, but serves the pages
    // that it has; with `false` it takes part again. Answers what the drain came to.
    caf::replies_to<drain_atom, bool>::with<drain_report>,
    // Clients of this host and the CLI: clear this space (space_id) within this many milliseconds.
    // The nodes in the text, one name per line, are gone for good. Answers when the clear is
    // certain, or when the time has passed.
    caf::replies_to<clear_atom, std::uint64_t, std::uint32_t, std::string>::with<clear_report>,
    // Clients of this host and the CLI: ask how much of a prompt each node has (encoded
    // overlap_query). Answers encoded overlap_matches within half a second.
    caf::replies_to<locate_atom, std::string>::with<std::string>,
    // Overlap of another node: asks how many of these blocks, from the first one on, the engines of
    // this host hold on their GPUs (encoded gpu_question). Answers an encoded gpu_run.
    caf::replies_to<gpu_atom, std::string>::with<std::string>,
    // Other nodes: tell the cleared spaces that they know. Answers those that this node knows
    // (CLEARING protocol).
    caf::replies_to<tell_atom, std::string>::with<std::string>,
    // This node's clearing: this node may have caught up with the clears that it missed; then
    // clients can be let in.
    caf::reacts_to<tell_atom, from_here>,
    // This node's membership: tells why this node is out of the cluster's view, in words; empty: it
    // is in.
    caf::reacts_to<outside_atom, std::string, from_here>,
    // This node's membership: tells a new view, for the sessions.
    caf::reacts_to<topology_atom, topology_ptr>,
    // The gateway, to itself: checks the sessions whose process may be gone.
    caf::reacts_to<beat_atom, from_here>>;

/// Opens connections with a deadline of our own, and without blocking another actor.
using connector_actor = caf::typed_actor<
    // Actors of this process: connect to this host and port. Answers the gateway published there,
    // or an error within the connect time-out. With TLS the certificate there must be that of the
    // node with the name that comes last; empty: of any node.
    caf::replies_to<dial_atom, std::string, std::uint16_t, std::string,
                    from_here>::with<gateway_actor>,
    // Actors of this process: connect to this host and port, and close. Answers nothing when there
    // was a connection, else the reason in words, within the connect time-out.
    caf::replies_to<try_atom, std::string, std::uint16_t, from_here>::with<std::string>,
    // The connector, to itself: checks the connections that are being made.
    caf::reacts_to<beat_atom, from_here>>;

} // namespace peercache::link
