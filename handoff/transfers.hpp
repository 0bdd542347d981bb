#pragma once

#include "common/result.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/messages.hpp"
#include "handoff/outgoing.hpp"
#include "handoff/registered_memory.hpp"
#include "handoff/transfer_calls.hpp"
#include "handoff/transfer_reads.hpp"
#include "handoff/transfer_requests.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// The transfers of one transfer worker: the calls of its engine and the requests of its peers,
/// which share its memory, its leases and its reads. All transfer workers are alike, and each has
/// both parts. Events in (calls of the engine, messages, results of reads, connections that end),
/// actions out (`take_dials`, `take_messages`, `next_read`, `take_cancels`).
///
/// Bytes are always read by the worker into whose memory they go, and are judged by the lease of
/// the worker from whose memory they come (`transfer_reads`): nothing is ever written to memory
/// from outside of its process.
///
/// Threads: one owner. Time is an argument. Errors: `transfer_calls` and `transfer_requests`.
class transfers {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    transfer_reads::options reads;
    transfer_calls::options calls;
    transfer_requests::options requests;
  };

  /// @param leases outlives this object
  transfers(lease_table& leases, const options& opts)
      : reads_(opts.reads), calls_(memory_, leases, reads_, opts.calls),
        requests_(memory_, leases, reads_, opts.requests) {}

  // -- calls of the engine

  /// Errors: as `registered_memory::add`.
  result<void> add_memory(const memory_range& memory) { return memory_.add(memory); }
  bool overlaps(const memory_range& memory) const noexcept { return memory_.overlaps(memory); }
  /// Takes memory out of use: calls and requests that use it end early, and leases of it are
  /// revoked. The memory may be freed when `writes_to` is false. Returns nothing when no registered
  /// memory begins at `address`.
  std::optional<memory_range> remove_memory(std::uint64_t address);
  bool writes_to(const memory_range& memory) const { return reads_.writes_to(memory); }
  transfer_calls& calls() noexcept { return calls_; }
  const transfer_calls& calls() const noexcept { return calls_; }
  /// Ends all calls and requests early.
  void cancel_all(const std::string& reason);
  /// Whether no call is open and no read is under way.
  bool is_quiet() const noexcept { return calls_.open() == 0 && reads_.jobs() == 0; }

  // -- messages and connections of peers

  void joined(peer_id peer) { calls_.joined(peer); }
  /// Takes a message of a peer. False when no transfer worker sends such a message.
  bool said(peer_id peer, const message& what, time_point now);
  void lost(peer_id peer, const std::string& reason);
  std::size_t requests() const noexcept { return requests_.size(); }
  std::size_t memory_ranges() const noexcept { return memory_.size(); }

  // -- reads for calls and requests

  std::optional<read_order> next_read() { return reads_.next_read(); }
  time_point deadline_of(join_id id) const { return reads_.deadline_of(id); }
  /// @pre `id` was ordered and not reported yet
  void finish_read(read_id id, bool good, const std::string& reason) {
    reads_.finish_read(id, good, reason);
  }
  std::vector<join_id> take_cancels() { return reads_.take_cancels(); }

  /// Reports finished reads to calls and requests, ends overdue calls and begins transfers.
  void turn(time_point now);
  std::vector<outgoing> take_messages();

private:
  void hand_out_finished();

  registered_memory memory_;
  transfer_reads reads_;
  transfer_calls calls_;
  transfer_requests requests_;
};

} // namespace peercache::handoff
