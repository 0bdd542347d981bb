#pragma once

#include "client/values/gpu_news.hpp"
#include "link/protocol/overlap_wire.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace peercache::client {

/// The blocks that an engine says it holds on its GPU, and what the node has not been told of them.
/// At each new session of the client the node is told of all of them.
///
/// Threads: any. Bounds: `held_max` keys, about 40 bytes each, and twice as many changes; beyond
/// that keys are left out, and the changes are replaced by a new beginning.
class gpu_ledger {
public:
  static constexpr std::size_t held_max = 1u << 20;

  /// @param keys_max keys that are held at most; a test gives less
  explicit gpu_ledger(std::size_t keys_max = held_max) : keys_max_(keys_max) {}

  /// Notes what the engine did. True: the caller has to wake the session's actor, which tells the
  /// node.
  bool note(const gpu_news& news);
  /// Returns the next report for the node, of `gpu_report::keys_max` keys at most. Nothing: the
  /// node knows all, and `note` returns true at the next news.
  std::optional<link::gpu_report> next();
  /// Call for a node that has been told nothing. True: there is something to tell.
  bool begin_again();
  /// Call when the node may have lost a report: the next report tells all, and makes the earlier
  /// ones void, even when the engine holds nothing.
  void tell_again();
  /// Keys that were left out because the engine holds too many.
  std::uint64_t left_out() const;

private:
  void start_over(); ///< The caller holds lock_.

  const std::size_t keys_max_;
  mutable std::mutex lock_;
  // `lock_` guards the members below.
  std::unordered_set<std::uint64_t> held_;
  std::unordered_map<std::uint64_t, bool> changes_; ///< Whether each key is held now.
  bool anew_ = false;                               ///< The node is to forget what it was told.
  /// The session's actor was woken, and `next` has not said yet that the node knows all.
  bool awake_ = false;
  std::uint32_t rank_ = link::gpu_report::no_rank;
  std::uint64_t left_out_ = 0;
};

} // namespace peercache::client
