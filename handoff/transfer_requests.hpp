#pragma once

#include "handoff/lease_table.hpp"
#include "handoff/outgoing.hpp"
#include "handoff/registered_memory.hpp"
#include "handoff/transfer_reads.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// The requests that peers make to a transfer worker. Messages in, messages and reads
/// (`transfer_reads`) out.
///
/// For a `transfer_write` this worker reads from the peer into memory that is registered here, and
/// answers, well or not, when nothing of the request still writes. A `transfer_read` is answered
/// with a lease, which is revoked when the peer has finished, or is lost. A request for memory that
/// is not registered as a whole is refused in a sentence, and none of the memory is touched.
///
/// Threads: one owner. Time is an argument. Errors: whatever a peer says, at worst its request
/// ends; functions return false for a message that no worker sends. Bounds: `options`; a request
/// above them is refused.
class transfer_requests {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::size_t per_peer_max = 64;
    std::size_t requests_max = 1024;
  };

  /// @param memory, leases, reads outlive this object
  transfer_requests(const registered_memory& memory, lease_table& leases, transfer_reads& reads,
                    options opts)
      : memory_(memory), leases_(leases), reads_(reads), options_(opts) {}

  bool write(peer_id peer, const transfer_write& said, time_point now);
  bool read(peer_id peer, const transfer_read& said);
  void stop(peer_id peer, const transfer_stop& said);
  /// Ends the peer's requests without answers, because its connection has ended.
  void lost(peer_id peer);
  /// Answers the request whose job has finished. False when the job does not belong to a request.
  bool read_finished(const transfer_reads::finished& read);

  /// Stops requests from using this memory of the worker: cancels the writes into it, and revokes
  /// the leases of the reads from it. A request ends later: a write when its job has finished, a
  /// read when its peer stops it or is lost. @pre the memory is no longer registered
  void memory_leaves(const memory_range& memory);
  void cancel_all(const std::string& reason);
  std::size_t size() const noexcept { return requests_.size(); }

  std::vector<outgoing> take_messages() { return std::exchange(messages_, {}); }

private:
  /// Names a request: each peer numbers its transfers for itself.
  using name = std::pair<peer_id, transfer_id>;
  struct request {
    std::optional<join_id> read;      ///< The job of a write.
    std::optional<lease> given;       ///< The lease of a read.
    std::vector<memory_range> ranges; ///< Memory that is lent to a read.
    bool peer_lost = false;
  };
  using requests = std::map<name, request>;

  bool is_full(peer_id peer) const noexcept;
  void refuse(const name& asked, const std::string& reason);
  void revoke(request& at) noexcept;

  const registered_memory& memory_;
  lease_table& leases_;
  transfer_reads& reads_;
  options options_;
  requests requests_;
  std::map<join_id, name> reading_;
  std::vector<outgoing> messages_;
};

} // namespace peercache::handoff
