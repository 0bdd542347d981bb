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

/// What the peers of a transfer worker ask of it. Messages in, messages and reads
/// (`transfer_reads`) out.
///
/// A write is read from the peer into memory that is registered here, and answered, well or not,
/// when nothing of it still writes. A read is answered with a lease, which is revoked when the peer
/// has finished, or is lost. Memory that is not registered as a whole is refused in a sentence, and
/// none of it is touched.
///
/// Threads: one owner. Time is an argument. Errors: whatever a peer says, at worst its request
/// ends; a message that no worker sends is told by `false`. Bounds: `options`; a request above them
/// is refused.
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
  /// The connection has ended: its requests get no answers.
  void lost(peer_id peer);
  /// False: the read does not belong to a request.
  bool read_finished(const transfer_reads::finished& read);

  /// Stops requests from using this memory of the worker: cancels the writes into it, and revokes
  /// the leases of the reads from it. A request ends later: a write when its READ has finished, a
  /// read when its peer stops it or is lost. @pre the memory is no longer registered
  void memory_leaves(const memory_range& memory);
  void cancel_all(const std::string& reason);
  std::size_t size() const noexcept { return requests_.size(); }

  std::vector<outgoing> take_messages() { return std::exchange(messages_, {}); }

private:
  /// A request's name: transfers are numbered by each peer for itself.
  using name = std::pair<peer_id, transfer_id>;
  struct request {
    std::optional<join_id> read;      ///< The job of a write.
    std::optional<lease> given;       ///< The lease of a read.
    std::vector<memory_range> ranges; ///< What is lent to a read.
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
