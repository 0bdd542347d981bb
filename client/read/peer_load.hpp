#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace peercache::client {

/// Bytes that the calls of this process are reading from each peer. Threads: any.
class peer_load {
public:
  void begin(const incarnation& peer, std::uint64_t bytes) {
    std::lock_guard guard{lock_};
    bytes_[peer] += bytes;
  }
  void end(const incarnation& peer, std::uint64_t bytes) {
    std::lock_guard guard{lock_};
    auto found = bytes_.find(peer);
    PEERCACHE_ASSERT(found != bytes_.end() && found->second >= bytes);
    if ((found->second -= bytes) == 0)
      bytes_.erase(found);
  }
  std::uint64_t outstanding(const incarnation& peer) const {
    std::lock_guard guard{lock_};
    auto found = bytes_.find(peer);
    return found != bytes_.end() ? found->second : 0;
  }

private:
  mutable std::mutex lock_;
  /// Guarded by lock_. Has an entry only for peers that are being read from.
  std::unordered_map<incarnation, std::uint64_t> bytes_;
};

} // namespace peercache::client
