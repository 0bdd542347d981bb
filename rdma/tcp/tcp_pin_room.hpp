#pragma once

#include "common/assert.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace peercache::rdma {

/// How many bytes of a pool the readers of a page server may have pinned, and how many each peer
/// has pinned.
///
/// All peers are given what they ask for while there is room. A peer that has bytes pinned may have
/// no more pinned than stay free: a single peer gets a half of all bytes, two peers get a third
/// each, and there is always room for one more peer. The last eighth is for small requests
/// (`small_request_bytes`), so that a few large pages which are sent slowly do not keep other peers
/// from being served.
///
/// A request that finds no room waits. The large request that has waited longest is in line: until
/// it is admitted, no other large one is, because smaller ones would take what is given back before
/// it is enough.
///
/// Pure. Threads: the server's. Units: bytes. Limits: a peer is remembered while it has bytes
/// pinned.
class tcp_pin_room {
public:
  static constexpr std::uint64_t small_request_bytes = 2u << 20;

  explicit tcp_pin_room(std::uint64_t bytes_max) noexcept : bytes_max_(bytes_max) {}

  /// Whether the peer may pin `bytes` now, for its request that `who` stands for. Whatever its
  /// length, a request has room when nothing else is pinned. Call again for a request that waits,
  /// for the oldest one first.
  bool admits(const void* who, const std::string& peer, std::uint64_t bytes) {
    const bool small = bytes <= small_request_bytes;
    if (!small && in_line_ != nullptr && in_line_ != who)
      return false;
    forget(who);
    if (used_ == 0)
      return true;
    const auto of_small = bytes_max_ / 8;
    if (used_ + bytes > (small ? bytes_max_ : bytes_max_ - of_small)) {
      if (!small)
        in_line_ = who;
      return false;
    }
    const auto has = of(peer);
    return has == 0 || has + bytes <= bytes_max_ - used_ + (small ? of_small : 0);
  }
  /// The request no longer waits.
  void forget(const void* who) noexcept {
    if (in_line_ == who)
      in_line_ = nullptr;
  }
  void take(const std::string& peer, std::uint64_t bytes) {
    used_ += bytes;
    peers_[peer] += bytes;
  }
  /// @pre the peer has pinned at least `bytes`
  void give_back(const std::string& peer, std::uint64_t bytes) noexcept {
    const auto found = peers_.find(peer);
    PEERCACHE_ASSERT(found != peers_.end() && found->second >= bytes && used_ >= bytes);
    used_ -= bytes;
    if ((found->second -= bytes) == 0)
      peers_.erase(found);
  }

  std::uint64_t used() const noexcept { return used_; }
  std::uint64_t of(const std::string& peer) const {
    const auto found = peers_.find(peer);
    return found != peers_.end() ? found->second : 0;
  }

private:
  std::uint64_t bytes_max_;
  std::uint64_t used_ = 0;
  const void* in_line_ = nullptr; ///< Stands for the large request for which room is kept.
  std::unordered_map<std::string, std::uint64_t> peers_;
};

} // namespace peercache::rdma
