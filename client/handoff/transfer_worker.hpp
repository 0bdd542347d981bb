#pragma once

#include "client/handoff/worker_options.hpp"
#include "common/result.hpp"
#include "handoff/memory_range.hpp"
#include "handoff/transfer_calls.hpp"
#include "handoff/worker_address.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace peercache::client {

/// State and, on failure, reason of a call of a transfer worker.
struct transfer_outcome {
  handoff::call_state state = handoff::call_state::failed;
  std::string reason; ///< Why the call has not succeeded, for people.
};

struct transfer_stats {
  std::uint64_t done = 0;
  std::uint64_t failed = 0; ///< Calls that failed, including those that took too long.
  std::uint64_t reads = 0;  ///< Reads that have ended, for calls of this worker and of its peers.
  std::uint64_t bytes = 0;  ///< Bytes of reads that were good.
  std::size_t calls = 0;    ///< Calls that are open now.
  std::size_t requests = 0; ///< Transfers of peers that are open now.
  std::size_t leases = 0;   ///< Leases of this worker's memory that stand now.
  std::size_t ranges = 0;   ///< Pieces of memory that are registered now.
};

/// One transfer engine: moves bytes between the registered memory of this process and that of other
/// processes, either way (`handoff::transfers` has the rules). Bytes are always read by the process
/// into whose memory they go, so nothing is ever writable from outside. Works with or without a
/// node on the host.
///
/// Threads: any thread may call all methods; the worker has an actor with a thread for its
/// connections, one for each server and each data plane, and under TLS one for handshakes.
/// Ownership: memory is lent from `register_memory` to `unregister_memory` or the destructor. When
/// a call has ended, well or not, nothing of it is under way in this process nor in the peer's,
/// unless the connection to the peer has ended. Errors: nothing throws; `closed` after `close`, and
/// in a forked child, where the worker has no threads. When a peer that reads for a write of this
/// worker has to stop, `wait` and the destructor wait for its answer beyond the call's deadline,
/// for at most `answer_timeout`: the peer is dropped then. A silent peer is lost after 2 s.
class transfer_worker {
public:
  /// Starts a worker. Errors: `refused` (a `host` beyond loopback without `insecure_cluster`),
  /// `invalid_argument` (a `host` that is not an address at which other workers find this worker),
  /// `io_failed` (a port, a device).
  /// @param options `host` may be a name, which is looked up
  static result<std::unique_ptr<transfer_worker>> start(worker_options options);
  /// Ends all calls and then the worker; waits until both have ended. @pre no other thread is in a
  /// call
  ~transfer_worker();
  transfer_worker(const transfer_worker&) = delete;
  transfer_worker& operator=(const transfer_worker&) = delete;

  /// Port to which other workers connect.
  std::uint16_t port() const noexcept;
  /// The chosen data plane and the reason, for people.
  const std::string& data_plane() const noexcept;

  /// Lets transfers read and write this memory. Errors: `invalid_argument` (no bytes), `refused`
  /// (overlaps what is registered, or is too much), or a device's.
  result<void> register_memory(const handoff::memory_range& memory);
  /// Whether any registered memory overlaps this memory.
  bool overlaps(const handoff::memory_range& memory) const;
  /// Ends transfers that use the memory that begins at `address`, and its registration; when this
  /// returns, nobody reads or writes it. Errors: `not_found`.
  result<void> unregister_memory(std::uint64_t address);

  /// Begins a call, whose result is kept until `wait` or `take` has given it. Errors: as
  /// `transfer_calls::begin`, or the host's name is not known. @param with the peer; its host may
  /// be a name, which is looked up at its first call, and anew when nobody answered. The look-up
  /// counts towards the call's time, which the resolver may exceed.
  result<handoff::call_id> begin(handoff::transfer_direction direction,
                                 handoff::worker_address with,
                                 std::vector<handoff::transfer_piece> pieces,
                                 std::chrono::nanoseconds timeout);
  /// Waits until the call has ended, and forgets it. A call that is not known has failed. When the
  /// thread is interrupted (common/interruption.hpp), this ends the call early, and waits until it
  /// has ended.
  transfer_outcome wait(handoff::call_id id);
  /// Returns the state of the call, and forgets the call if it has ended.
  transfer_outcome take(handoff::call_id id);

  /// Ends all calls early; further calls are refused. Does not wait.
  void close();
  transfer_stats stats() const;

private:
  class impl;
  explicit transfer_worker(std::unique_ptr<impl> made);
  std::unique_ptr<impl> impl_;
};

} // namespace peercache::client
