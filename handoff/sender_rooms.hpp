#pragma once

#include "common/ids.hpp"
#include "common/result.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/messages.hpp"
#include "handoff/outgoing.hpp"
#include "handoff/peer_id.hpp"
#include "handoff/room_ids.hpp"
#include "handoff/room_state.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// Names one opening of a room at a prefill worker; no two openings have the same id.
struct send_id {
  std::uint64_t value = 0;
  auto operator<=>(const send_id&) const = default;
};

/// The rooms of one prefill worker: which receivers have joined them, what was offered, and the
/// leases under which pages are read. Events in (calls of the engine, messages of receivers,
/// connections that begin and end), messages out: `take_messages`.
///
/// - `bootstrapping`: until `required` receivers have joined.
/// - `waiting_for_input`: until the engine's `init` and first `send`.
/// - `transferring`: until the last pages are offered and each receiver is done.
/// - `success`, `failed`: the lease is revoked.
///
/// The engine may give a room's pages to somebody else as soon as it has seen `success` or
/// `failed`, or a call that ends the room has returned: the lease is revoked before.
///
/// A number comes again by SGLang's retraction: decode, after a success of its own, asks the same
/// prefill worker for the room once more. Otherwise the caller lets a number come again only after
/// every worker that had the room has cleared it. So:
///
/// - Each `open` is another room, and supersedes the previous room of its number. A superseded room
///   that has not ended fails; a room that has ended keeps its end. Later messages of receivers
///   concern only the new room. The engine polls and clears each of the two by its `send_id`, in
///   any order. Clearing a superseded room forgets it, which frees its place among `rooms_max`, and
///   does nothing else: it sends no message, revokes no lease, drops no held join, and does not
///   make the room one of the failed rooms that answer late joins.
/// - A receiver has a part in a room by its process and its `join_id`, which grows with each turn
///   of that process. Messages with another id change nothing; a join with an older one, or with
///   the same one again, is answered with an abort and changes nothing either.
/// - A join with a newer id says that the earlier one of this process is over. The receiver's part
///   in the open room ends: well if it is done, else the room fails. The join never enters that
///   room; it is held for the next `open`.
/// - A dummy sends `done` without an offer, so that a room succeeds only with the joins of its own
///   turn.
/// - A held join is forgotten when its receiver is done while the room has failed here, when its
///   receiver aborts it, and when its connection ends. After the last two the next room of the
///   number fails as soon as it is opened, since nobody would tell it of that end; unless the
///   receiver has joined with a newer id meanwhile.
/// - A join that comes before its room is held as well. A join of a room that has failed, from a
///   process that had no part in it, is answered with an abort, also after the room was cleared.
/// - An abort that comes before its join, over another connection, is remembered: the join is
///   answered with an abort.
///
/// Threads: one owner. Errors: full, or called out of order, is a `result`; whatever a peer says,
/// at worst its room fails. Bounds: `options`; `limits::room_pages_max` pages a room.
class sender_rooms {
public:
  struct options {
    std::size_t rooms_max = 65'536;
    /// Limit of held joins of one process; a further join is refused.
    std::size_t held_joins_max = 4096;
    /// Limit of held joins of all processes together; a further join is refused.
    std::size_t held_joins_total_max = 65'536;
    /// Limit of the failed and cleared rooms that are remembered to answer late joins; the oldest
    /// is forgotten first.
    std::size_t failed_rooms_kept = 4096;
    /// Limit of remembered aborts whose join has not come; the oldest is forgotten first.
    std::size_t early_aborts_kept = 4096;
    /// Limit of the numbers that are remembered because a held join has ended before the room was
    /// opened; the oldest is forgotten first.
    std::size_t given_up_kept = 4096;
  };
  using outgoing = handoff::outgoing;

  sender_rooms(lease_table& leases, options opts) : leases_(leases), options_(opts) {}

  // -- calls of the engine

  /// Opens a room, and fails the previous room of this number if it has not ended. Errors:
  /// `refused` (too many rooms, or no lease left), `invalid_argument` (`required` is 0).
  ///
  /// @param required number of receivers; nothing: the number that their joins say
  result<send_id> open(room_id room, std::optional<std::uint32_t> required = std::nullopt);
  /// Pages that the receivers of the room already have; nothing before all of them have joined.
  std::optional<std::uint32_t> prefix_pages(send_id id) const;
  /// Says how many pages will be sent, behind the prefix. Errors: `invalid_argument` (the room is
  /// not open or has ended, a second call, or more than `limits::room_pages_max` pages), which
  /// changes nothing; a count that a receiver has not allocated fails the room.
  result<void> init(send_id id, std::uint32_t pages);
  /// Offers pages that are complete. The last call for a room (`last`) brings states and aux row,
  /// and may have no pages. Errors: `invalid_argument`. A call before `init`, before all receivers
  /// have joined or after the end changes nothing. A call with more pages than `init` said, a last
  /// one that leaves pages out, a call behind the last one, states before the last call or above
  /// their limits fail the room as well.
  result<void> send(send_id id, std::span<const std::uint32_t> pages, bool last,
                    std::vector<state_items> states = {}, std::uint32_t aux_row = 0);
  /// Fails the room and tells its receivers.
  void abort(send_id id, std::string reason, failure_kind kind = failure_kind::aborted);
  /// Forgets the room, which is aborted first if it has not ended.
  void clear(send_id id);
  /// Fails all rooms, for a worker that gives its memory back.
  void abort_all(const std::string& reason);

  /// The room's state; `failed` for a room that is not open.
  room_state poll(send_id id) const noexcept;
  /// Rooms whose `poll` may return another state than at the last call of this function, each once,
  /// the oldest first: new rooms are among them, cleared rooms are not. Cost: that of the rooms
  /// returned.
  std::vector<send_id> take_changes();
  /// Why the room failed; nothing while it has not.
  std::optional<room_failure> failure(send_id id) const;
  /// The bytes of all receivers that are done, and the time that the slowest of them took.
  transfer_metric metric(send_id id) const noexcept;
  std::size_t rooms() const noexcept { return rooms_.size(); }
  const rooms_by_state& states() const noexcept { return states_; }
  std::size_t held_joins() const noexcept { return held_joins_; }

  // -- messages and connections of receivers

  // Messages of a peer come between its `connected` and its `lost`.

  /// A connection to a decode worker begins. @pre `peer` is new
  void connected(peer_id peer, const incarnation& process);
  void joined(peer_id peer, const join& said);
  void finished(peer_id peer, const done& said);
  void aborted(peer_id peer, const handoff::abort& said);
  /// The connection has ended: joins that came over it are forgotten, and rooms that were joined
  /// over it fail, now or when they are opened.
  void lost(peer_id peer);

  /// Returns the messages to send that were queued since the last call, in order.
  std::vector<outgoing> take_messages() { return std::exchange(outgoing_, {}); }

private:
  struct receiver {
    peer_id peer; ///< The connection over which the receiver has joined.
    join said;
    bool done = false;
  };
  /// Processes that have joined a room or were refused by it, each with the id of its join.
  using participants = std::map<incarnation, join_id>;
  struct room {
    send_id id;
    room_id number;
    std::uint32_t required = 0;         ///< Receivers that must join; 0 before it is known.
    std::optional<std::uint32_t> pages; ///< Number of pages that `init` said.
    /// Number of pages that were offered so far; pages that the receivers already had do not count.
    std::uint32_t offered = 0;
    bool last_sent = false;
    room_state state = room_state::bootstrapping;
    lease under;
    std::map<incarnation, receiver> receivers;
    participants known;
    room_failure failure;
    transfer_metric metric;

    bool has_ended() const noexcept {
      return state == room_state::failed || state == room_state::success;
    }
    bool all_have_joined() const noexcept { return required != 0 && receivers.size() >= required; }
  };
  /// What is kept of a failed room that was cleared, to answer late joins.
  struct failed_room {
    participants known;
    bool was_heard = false; ///< Value of `room_failure::was_heard` of the room's failure.
  };
  struct held_join {
    peer_id peer;
    join said;
    /// Whether a dummy sent the join and has said `done` before the room was opened here.
    bool done = false;
  };

  /// Why the next room of a number fails at once, and the receivers whose held joins have ended.
  struct given_up_room {
    participants receivers;
    room_failure why;
  };

  room* find(send_id id) noexcept;
  const room* find(send_id id) const noexcept;
  room* newest(room_id number) noexcept;
  bool is_late(peer_id peer, const join& said) const;
  void join_room(room& at, peer_id peer, const join& said);
  void join_again(room& at, const receiver& earlier, peer_id peer, const join& said);
  void join_failed(participants& known, bool was_heard, peer_id peer, const join& said);
  void admit(room& at, peer_id peer, const join& said);
  void advance(room& at);
  void set_state(room& at, room_state state);
  void offer_to_all(const room& at, const offered_pages& pages);
  void end(room& at, room_state state);
  void fail(room& at, failure_kind kind, std::string reason);
  void refuse(peer_id peer, const join& said, std::string reason, bool heard = false);
  void hold(peer_id peer, const join& said);
  held_join* find_held(const incarnation& process, room_id number, join_id id) noexcept;
  void forget_held(room_id number, const incarnation& process) noexcept;
  void give_up(room_id number, const incarnation& process, room_failure why);
  void forget_given_up(room_id number);
  void remember_failed(const room& at);
  void remember_abort(const incarnation& process, join_id id);

  lease_table& leases_;
  options options_;
  send_id next_{1};
  std::map<send_id, room> rooms_;
  rooms_by_state states_;
  std::map<room_id, send_id> newest_; ///< The newest room of each number that is open.
  std::set<send_id> changed_;         ///< Open rooms that the next `take_changes` returns.
  std::map<peer_id, incarnation> processes_;
  /// Joins that wait for an `open`, by number and process.
  std::map<room_id, std::map<incarnation, held_join>> held_;
  /// Number of held joins of each process that has any.
  std::map<incarnation, std::size_t> held_of_;
  std::size_t held_joins_ = 0;
  std::map<room_id, failed_room> failed_;
  /// Numbers of the rooms in `failed_`, the oldest first.
  std::deque<room_id> failed_order_;
  std::map<room_id, given_up_room> given_up_;
  /// Numbers of the rooms in `given_up_`, the oldest first.
  std::deque<room_id> given_up_order_;
  std::set<std::pair<incarnation, join_id>> early_aborts_;
  std::deque<std::pair<incarnation, join_id>> early_aborts_order_;
  std::vector<outgoing> outgoing_;
};

} // namespace peercache::handoff
