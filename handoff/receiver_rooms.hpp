#pragma once

#include "common/result.hpp"
#include "handoff/messages.hpp"
#include "handoff/outgoing.hpp"
#include "handoff/peer_id.hpp"
#include "handoff/read_order.hpp"
#include "handoff/room_ids.hpp"
#include "handoff/room_state.hpp"
#include "handoff/transfer_plan.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace peercache::handoff {

/// The rooms of one decode worker: which prefill workers they wait for, what these have offered,
/// what is being read, and what has been judged. Events in (calls of the engine, messages of
/// senders, results of reads, connections that end), actions out: `take_actions`, and `next_read`
/// for the pieces.
///
/// - `bootstrapping`: until the engine's `connect`, when the senders are known.
/// - `waiting_for_input`: until the first offer, which comes only after `allocate`.
/// - `transferring`: until every piece of every sender that is not a dummy was judged, or all
/// fails.
/// - `success`: `done` is sent to these senders.
/// - `failed`: an abort is sent to all senders, if they were joined.
///
/// A room that fails orders no more reads, and asks for those under way to be cancelled. Its state
/// stays what it was until the last of them was reported by `finish_read`: after that no channel
/// can write to its pages (guard `quiet`). `success` needs the last offers of all senders that are
/// not dummies, each byte of them judged good (guard `all_pieces`); one holds the aux row.
///
/// Each `open` is a turn of its own, with a `join_id` that grows and that no other turn of this
/// process has; every message names it. Offers and aborts of an earlier turn of the same number
/// never touch a later one. A turn that is cleared while reads are under way lives on until they
/// are reported. A number that is open is not opened again before it is cleared. The caller lets a
/// number come again after a success here, or when every worker that had it has cleared it
/// (`sender_rooms` says why).
///
/// Reads are ordered for the oldest room first, while less than `wire_bytes_max` are under way;
/// what is under way exceeds that by at most one piece.
///
/// Threads: one owner. Time is an argument. Errors: calls out of order are a `result`; whatever a
/// peer says, at worst its room fails. Bounds: `options`.
class receiver_rooms {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::size_t rooms_max = 65'536; ///< Maximum number of turns, including cleared ones that only
                                    ///< wait for reads.
    /// Offers of one sender that were not read yet; one more fails the room.
    std::size_t offers_waiting_max = 4096;
    std::uint64_t wire_bytes_max = 256u << 20;
    std::uint64_t read_bytes_max = 64u << 20; ///< From here on a read gets no further piece.
    std::uint32_t read_pieces_max = limits::batch_pages_max;
  };
  struct source {
    peer_id peer;
    std::shared_ptr<const transfer_plan> plan; ///< From this peer to this worker.
  };
  using outgoing = handoff::outgoing;
  /// Cancel all reads of this turn that are under way; each is still reported by `finish_read`,
  /// when it can no longer write.
  struct cancel_reads {
    join_id turn;
    bool operator==(const cancel_reads&) const = default;
  };
  using action = std::variant<outgoing, cancel_reads>;

  /// @param first_turn a number above those that this process has used before
  receiver_rooms(options opts, join_id first_turn) : options_(opts), next_turn_(first_turn) {}

  // -- the engine

  /// Opens a room. Errors: `refused` (too many), `invalid_argument` (this number is open at this
  /// worker, which changes nothing for the room that has it).
  result<void> open(room_id room);
  /// Says which prefill workers send. Errors: `invalid_argument` (not open, or called already;
  /// exactly one of them must have the aux row).
  result<void> connect(room_id room, std::vector<source> sources);
  /// Joins all senders with these pages, which are theirs to fill until the room has ended.
  /// Errors: `invalid_argument` (before `connect`, called already, or too many pages).
  result<void> allocate(room_id room, allocated_pages pages);
  /// Fails the room; `poll` says so when it is quiet.
  void abort(room_id room, std::string reason, failure_kind kind = failure_kind::aborted);
  /// Forgets the room, for the engine. One that has not ended is aborted first; its pages may be
  /// given to somebody else when `is_quiet`.
  void clear(room_id room);
  /// Fails all rooms, for a worker that gives its memory back.
  void abort_all(const std::string& reason);

  /// The room's state; `failed` for a room that is not open.
  room_state poll(room_id room) const noexcept;
  /// Rooms whose `poll` may say something else than at the last call, new ones included: each once.
  /// Cleared rooms are not among them. Cost: that of the rooms returned.
  std::vector<room_id> take_changes();
  std::optional<room_failure> failure(room_id room) const;
  /// The bytes that were read for a room that has succeeded, and how long that took from its first
  /// offer; nothing for any other.
  std::optional<transfer_metric> metric(room_id room) const noexcept;
  /// Whether no read of any turn of the room is under way.
  bool is_quiet(room_id room) const noexcept;
  std::size_t turns() const noexcept { return turns_.size(); }
  std::uint64_t wire_bytes() const noexcept { return wire_bytes_; }

  // -- senders

  void offered(peer_id peer, const offer& said, time_point now);
  void aborted(peer_id peer, const handoff::abort& said);
  void lost(peer_id peer);

  // -- reads

  /// The next read, if there is one within the limits; its parts are the data plane's until
  /// `finish_read`. Cost: rooms that have nothing to read add none.
  std::optional<read_order> next_read();
  /// Reports a read whose parts no channel can write to any longer.
  ///
  /// @param good whether each piece arrived while its lease stood
  ///
  /// @pre `id` was ordered and not reported yet
  void finish_read(read_id id, bool good, const std::string& reason, time_point now);

  std::vector<action> take_actions() { return std::exchange(actions_, {}); }

private:
  struct sender {
    source from;
    std::optional<lease> under; ///< The lease of its offers.
    std::uint32_t next_page = 0;
    bool last = false;
    std::deque<piece_reader> waiting; ///< Pieces of its offers that were not ordered yet.
    std::uint64_t promised = 0;       ///< Bytes of all its offers.
    std::uint64_t judged = 0;         ///< Bytes of its reads that were good.
  };
  struct turn {
    room_id room;
    room_state state = room_state::bootstrapping;
    bool failing = false; ///< Failed, though nobody may see it before the turn is quiet.
    bool cleared = false;
    std::vector<sender> senders;
    std::optional<allocated_pages> pages;
    std::size_t reads = 0; ///< Reads under way.
    std::optional<time_point> first_offer;
    transfer_metric metric;
    room_failure failure;
  };
  struct open_read {
    join_id turn;
    std::size_t sender = 0;
    std::uint64_t bytes = 0;
  };

  static bool has_ended(const turn& at) noexcept {
    return at.failing || at.state == room_state::failed || at.state == room_state::success;
  }
  std::pair<join_id, turn*> find(room_id room) noexcept;
  const turn* find(room_id room) const noexcept;
  void take_offer(join_id id, turn& at, sender& from, const offer& said);
  read_order read_of(join_id id, turn& at, std::size_t sender);
  void drop_waiting(join_id id, turn& at);
  void fill(read_order& order, sender& from);
  void advance(join_id id, turn& at, time_point now);
  void fail(join_id id, turn& at, failure_kind kind, std::string reason);
  void settle(join_id id, turn& at);
  void set_state(turn& at, room_state state);

  options options_;
  join_id next_turn_;
  read_id next_read_{1};
  std::map<join_id, turn> turns_; ///< In the order of `open`: the oldest first.
  std::map<room_id, join_id> current_;
  std::set<room_id> changed_; ///< Rooms in `current_`, for the next `take_changes`.
  std::map<read_id, open_read> reads_;
  std::set<join_id> readable_;              ///< Turns of which pieces wait: the oldest first.
  std::map<room_id, std::size_t> reads_of_; ///< Reads under way of all turns of a room.
  std::uint64_t wire_bytes_ = 0;
  std::vector<action> actions_;
};

} // namespace peercache::handoff
