#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace peercache::rdma {

/// Counts of the channels to one peer since the process began. Threads: any.
struct peer_counts {
  /// Pages of the requests that were answered over a rail; pages that were hits over TCP.
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> bytes{0}; ///< Payload bytes of these pages.
  /// Channels that ended while one of their requests was on its way. Over TCP channels that could
  /// not be made count too, but none that ended with a cancelled batch, none whose requests went
  /// out once more, and none that met another incarnation.
  std::atomic<std::uint64_t> errors{0};
};

/// The counts of all peers of one rail, or of TCP, by the peers' names. The lock is taken once for
/// each channel, over TCP once for each peer. Threads: any. Invariant: at most `peers_max` names;
/// further peers share the name "others".
class peer_counters {
public:
  static constexpr std::size_t peers_max = 1024;

  /// The counts of `peer`, which the first call makes. The reference stays valid as long as this
  /// object lives.
  peer_counts& of(const std::string& peer);
  void for_each(const std::function<void(const std::string&, const peer_counts&)>& look) const;

private:
  mutable std::mutex lock_;
  /// Counts by peer, guarded by `lock_`; a map, so that entries stay where they are.
  std::map<std::string, peer_counts> counts_;
};

} // namespace peercache::rdma
