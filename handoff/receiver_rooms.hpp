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
/// - `transferring`: until every piece of every sender that is not a dummy was judged, or the
///   room fails.
/// - `success`: `done` is sent to all senders.
/// - `failed`: an abort is sent to all senders, if they were joined.
///
/// A room that fails orders no more reads, and asks for its reads under way to be cancelled. Its
/// state becomes `failed` only when `finish_read` has reported the last of these reads: from then
/// on no channel can write to the room's pages (guard `quiet`). `success` needs the last offer of
/// each sender that is not a dummy, and every byte that these offered judged good (guard
/// `all_pieces`); exactly one sender has the aux row.
///
/// Each `open` is a turn of its own, with a `join_id` that grows and that no other turn of this
/// process has; every message names it. Offers and aborts of an earlier turn of the same number
/// never touch a later one. A turn that is cleared while reads are under way lives on until they
/// are reported. A number is not opened again before its room is cleared. The caller lets a number
/// come again after a success here, or when every worker that had it has cleared it (`sender_rooms`
/// says why).
///
/// Reads are ordered for the oldest room first, while less than `wire_bytes_max` bytes are under
/// way; the last piece of a read may exceed that limit.
///
/// Threads: one owner. Time is an argument. Errors: calls out of order are a `result`; whatever a
/// peer says, at worst its room fails. Bounds: `options`.
class receiver_rooms {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    /// Maximum number of turns, including cleared turns that only wait for reads.
    std::size_t rooms_max = 65'536;
    /// Limit of offers of one sender that were not read yet; a further offer fails the room.
    std::size_t offers_waiting_max = 4096;
    std::uint64_t wire_bytes_max = 256u << 20;
    std::uint64_t read_bytes_max = 64u << 20; ///< Bytes at which a read gets no further piece.
    std::uint32_t read_pieces_max = limits::batch_pages_max;
  };
  struct source {
    peer_id peer;
    std::shared_ptr<const transfer_plan> plan; ///< The plan from this peer to this worker.
  };
  using outgoing = handoff::outgoing;
  /// Asks that all reads of this turn that are under way are cancelled. Each read is still reported
  /// by `finish_read`, when it can no longer write.
  struct cancel_reads {
    join_id turn;
    bool operator==(const cancel_reads&) const = default;
  };
  using action = std::variant<outgoing, cancel_reads>;

  /// @param first_turn a number above those of all turns that this process has had before
  receiver_rooms(options opts, join_id first_turn) : options_(opts), next_turn_(first_turn) {}

  // -- calls of the engine

  /// Opens a room. Errors: `refused` (too many turns), `invalid_argument` (the number is open
  /// already; that room stays as it is).
  result<void> open(room_id room);
  /// Says which prefill workers send to the room. Errors: `invalid_argument` (the room is not open,
  /// has ended or is connected already, or not exactly one of the workers has the aux row).
  result<void> connect(room_id room, std::vector<source> sources);
  /// Joins all senders and names the pages, which are written to until the room has ended. Errors:
  /// `invalid_argument` (before `connect`, after the end of the room, a second call for the room,
  /// or too many pages).
  result<void> allocate(room_id room, allocated_pages pages);
  /// Fails the room; `poll` returns `failed` once no read of the room's turn is under way.
  void abort(room_id room, std::string reason, failure_kind kind = failure_kind::aborted);
  /// Forgets the room, which is aborted first if it has not ended. Its pages may be used for
  /// another request as soon as `is_quiet`.
  void clear(room_id room);
  /// Fails all rooms, for a worker that gives its memory back.
  void abort_all(const std::string& reason);

  /// The room's state; `failed` for a room that is not open.
  room_state poll(room_id room) const noexcept;
  /// Rooms whose `poll` may return another state than at the last call of this function, each once,
  /// including new rooms but not cleared rooms. Cost: that of the rooms returned.
  std::vector<room_id> take_changes();
  std::optional<room_failure> failure(room_id room) const;
  /// The bytes that were read for a room that has succeeded, and the time from its first offer to
  /// its end; nothing for other rooms.
  std::optional<transfer_metric> metric(room_id room) const noexcept;
  /// Whether no read of any turn of the room is under way.
  bool is_quiet(room_id room) const noexcept;
  std::size_t turns() const noexcept { return turns_.size(); }
  /// The turns by their states; those that are cleared and wait for a read are among them.
  const rooms_by_state& states() const noexcept { return states_; }
  std::uint64_t wire_bytes() const noexcept { return wire_bytes_; }

  // -- messages and connections of senders

  void offered(peer_id peer, const offer& said, time_point now);
  void aborted(peer_id peer, const handoff::abort& said);
  void lost(peer_id peer);

  // -- reads of pieces from senders

  /// Orders the next read, if pieces wait and the limits allow a read; its parts are the data
  /// plane's until `finish_read`. Cost: independent of rooms that have nothing to read.
  std::optional<read_order> next_read();
  /// Reports a read whose parts no channel can write to any longer.
  /// @pre `id` was ordered and not reported yet
  void finish_read(read_id id, read_end end, const std::string& reason, time_point now);

  std::vector<action> take_actions() { return std::exchange(actions_, {}); }

private:
  struct sender {
    source from;
    /// The lease of the sender's offers; nothing before the first offer.
    std::optional<lease> under;
    std::uint32_t next_page = 0;
    bool last = false;
    /// Offers of the sender with pieces that are in no read_order yet.
    std::deque<piece_reader> waiting;
    std::uint64_t promised = 0; ///< Bytes of all offers of the sender.
    std::uint64_t judged = 0;   ///< Bytes of the sender's pieces that were read and judged good.
  };
  struct turn {
    room_id room;
    room_state state = room_state::bootstrapping;
    bool failing = false; ///< The turn has failed; its `state` becomes `failed` only when no read
                          ///< is under way.
    bool cleared = false;
    std::vector<sender> senders;
    std::optional<allocated_pages> pages;
    std::size_t reads = 0; ///< Reads of the turn that are under way.
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
  std::map<join_id, turn> turns_; ///< All turns, the oldest `open` first.
  std::map<room_id, join_id> current_;
  rooms_by_state states_;
  std::set<room_id> changed_; ///< Rooms in `current_` that the next `take_changes` returns.
  std::map<read_id, open_read> reads_;
  std::set<join_id> readable_;              ///< Turns with pieces to read, the oldest first.
  std::map<room_id, std::size_t> reads_of_; ///< Reads under way of all turns of a room.
  std::uint64_t wire_bytes_ = 0;
  std::vector<action> actions_;
};

} // namespace peercache::handoff
