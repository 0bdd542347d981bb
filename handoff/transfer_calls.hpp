#pragma once

#include "common/result.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/limits.hpp"
#include "handoff/outgoing.hpp"
#include "handoff/registered_memory.hpp"
#include "handoff/transfer_reads.hpp"
#include "handoff/worker_address.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// Names one call of the engine.
struct call_id {
  std::uint64_t value = 0;
  auto operator<=>(const call_id&) const = default;
};

enum class call_state : std::uint8_t { open, done, failed, timed_out };

enum class transfer_direction : std::uint8_t {
  write, ///< From this worker's memory to the peer's.
  read   ///< From the peer's memory to this worker's.
};

struct transfer_call {
  transfer_direction direction = transfer_direction::write;
  worker_address with;
  std::vector<transfer_piece> pieces;
  std::chrono::steady_clock::time_point deadline;
};

/// The calls of a transfer worker's engine. Events in, messages and reads (`transfer_reads`) out.
///
/// A call is cut into transfers of at most `limits::transfer_pieces_max` pieces:
///
/// waiting until the peer is connected and has fewer than `open_per_peer_max` transfers open
///   asked     write: the peer reads under a lease of this worker; read: the peer has to lend
///             its memory
///   reading   read: `transfer_reads` has the job
///   stopping  write that fails: the lease is revoked and the peer was told; its answer is
///             awaited, for `options::answer_max`
///
/// A call ends, well or not, when all of its transfers have: nothing of it is under way in this
/// process then, nor in the peer's, unless the connection to the peer has ended. What ends a
/// transfer early (a time-out, `cancel`, the failure of another transfer of the call, memory that
/// leaves) revokes its lease at once. A peer that owes an answer for too long has to be dropped
/// (`take_silent`). Each later transfer to a peer whose connection has ended dials it anew.
///
/// Threads: one owner. Time is an argument. Errors: whatever a peer says, at worst its calls fail;
/// functions return false for a message that no worker sends. Bounds: `options`.
class transfer_calls {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::size_t calls_max = 65'536; ///< Limit of calls that the engine has not told to `forget`.
    std::size_t open_per_peer_max = 8;
    /// Longest time for a peer's answer to `transfer_stop`.
    std::chrono::milliseconds answer_max{5000};
  };

  /// @param memory, leases, reads outlive this object
  transfer_calls(const registered_memory& memory, lease_table& leases, transfer_reads& reads,
                 options opts)
      : memory_(memory), leases_(leases), reads_(reads), options_(opts) {}

  // -- calls of the engine

  /// Begins a call. Errors: `invalid_argument` (impossible memory, or own memory that is not
  /// registered), `refused` (too many calls).
  result<call_id> begin(transfer_call call);
  bool knows(call_id id) const noexcept { return calls_.contains(id); }
  /// The state of the call; `failed` for a call that is not known.
  call_state state(call_id id) const noexcept;
  /// Why the call has failed; empty when the call has not failed or is not known.
  std::string failure(call_id id) const;
  /// Ends the call early; the call stays `open` until none of its transfers is under way.
  void cancel(call_id id, const std::string& reason);
  void cancel_all(const std::string& reason);
  /// Fails the calls that use this memory of the worker; each call stays `open` until none of its
  /// transfers is under way. @pre the memory is no longer registered
  void memory_leaves(const memory_range& memory);
  /// Forgets the call, for whose state the engine no longer asks; a call that is still open first
  /// ends as usual.
  void forget(call_id id);
  std::size_t open() const noexcept { return open_; }
  /// Whether any call has ended since the last call of this function.
  bool take_has_ended() noexcept { return std::exchange(has_ended_, false); }

  // -- connections to peers

  /// Workers to connect to; the caller answers each with `dialed` or `unreachable`.
  std::vector<worker_address> take_dials();
  void dialed(const worker_address& address, peer_id peer);
  void unreachable(const worker_address& address, const std::string& reason);
  void joined(peer_id peer);
  void lost(peer_id peer, const std::string& reason);
  /// Connected peers that have not answered `transfer_stop` in time. The caller ends their
  /// connections, and reports each peer as `lost`.
  std::vector<peer_id> take_silent();

  // -- answers of peers, and ends of reads

  bool lent(peer_id peer, const transfer_lent& said);
  bool ended(peer_id peer, const transfer_ended& said);
  /// Ends the transfer whose job has finished. False when the job does not belong to a call.
  bool read_finished(const transfer_reads::finished& read);

  /// Ends calls that are overdue, notes peers that owe an answer for too long, and asks peers for
  /// the transfers that can begin.
  void turn(time_point now);
  /// Time at which the next open call is overdue.
  time_point deadline() const noexcept;
  std::vector<outgoing> take_messages() { return std::exchange(messages_, {}); }

private:
  enum class phase : std::uint8_t { waiting, asked, reading, stopping, answered };
  struct transfer {
    call_id call;
    phase at = phase::waiting;
    std::vector<transfer_piece> pieces;
    std::optional<peer_id> peer; ///< The connection over which the transfer was asked for.
    std::optional<lease> given;
    std::optional<join_id> read;
  };
  struct open_call {
    transfer_direction direction = transfer_direction::write;
    worker_address with;
    time_point deadline;
    std::set<transfer_id> transfers; ///< Transfers that have not ended.
    call_state state = call_state::open;
    call_state end = call_state::done; ///< State that the call gets when its last transfer ends.
    std::string failure;
    bool forgotten = false;
  };
  /// State of the peer at one address.
  struct connection {
    std::optional<peer_id> peer;
    bool dialing = false;
    bool joined = false;
    std::deque<transfer_id> waiting; ///< Transfers in phase `waiting`; some may have ended.
    std::size_t open = 0;            ///< Transfers in any other phase than `waiting`.
    std::set<transfer_id> all;
  };

  void add_transfers(call_id id, transfer_call& call);
  void start(connection& with, time_point now);
  bool ask(transfer_id id, transfer& at, connection& with, time_point now);
  void fail(call_id id, call_state end, const std::string& reason);
  void stop(transfer_id id);
  void tell_stop(transfer_id id, const transfer& at);
  void watch_answers(time_point now);
  void end(transfer_id id);
  void settle(call_id id);
  void lose(const worker_address& address, const std::string& reason);
  void drop_if_unused(const worker_address& address);
  void revoke(transfer& at) noexcept;
  bool is_local_to(const transfer& at, const memory_range& memory) const;
  result<void> check(const transfer_call& call) const;

  const registered_memory& memory_;
  lease_table& leases_;
  transfer_reads& reads_;
  options options_;
  call_id next_call_{1};
  transfer_id next_transfer_{1};
  std::map<call_id, open_call> calls_;
  std::map<transfer_id, transfer> transfers_;
  std::map<worker_address, connection> connections_;
  std::map<peer_id, worker_address> addresses_;
  std::map<join_id, transfer_id> reading_;
  std::set<std::pair<time_point, call_id>> deadlines_;
  /// Transfers that were told to stop since the last turn. Some of these may have ended.
  std::vector<transfer_id> stopped_;
  /// When the answers to earlier stops are due, in order of time. Some of the transfers may have
  /// ended.
  std::deque<std::pair<time_point, transfer_id>> answers_due_;
  std::set<peer_id> silent_;
  std::size_t open_ = 0;
  bool has_ended_ = false;
  bool may_start_ = false; ///< Whether some waiting transfer may begin.
  std::vector<outgoing> messages_;
};

} // namespace peercache::handoff
