#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace peercache::rdma {

/// Counts of the channels to one peer, since the start. Threads: any.
struct peer_counts {
  std::atomic<std::uint64_t> reads{0};  ///< Pages asked for.
  std::atomic<std::uint64_t> bytes{0};  ///< Bytes READ.
  std::atomic<std::uint64_t> errors{0}; ///< Channels that broke while they carried something.
};

/// The counts of all peers of one rail, by name. The lock is taken once for each channel.
/// Threads: any. Invariant: at most `peers_max` names; further peers share one, "others".
class peer_counters {
public:
  static constexpr std::size_t peers_max = 1024;

  /// Stays valid as long as this object.
  peer_counts& of(const std::string& peer);
  void for_each(const std::function<void(const std::string&, const peer_counts&)>& look) const;

private:
  mutable std::mutex lock_;
  std::map<std::string, peer_counts> counts_; ///< By peer; by lock_; entries stay where they are.
};

} // namespace peercache::rdma
