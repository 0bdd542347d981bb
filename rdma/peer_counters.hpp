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
  std::atomic<std::uint64_t> reads{0}; ///< Pages of the requests that were answered.
  std::atomic<std::uint64_t> bytes{0}; ///< Payload bytes of the requests that were answered.
  /// Channels that ended while one of their requests was on its way.
  std::atomic<std::uint64_t> errors{0};
};

/// The counts of all peers of one rail, by the peers' names. The lock is taken once for each
/// channel. Threads: any. Invariant: at most `peers_max` names; further peers share the name
/// "others".
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
