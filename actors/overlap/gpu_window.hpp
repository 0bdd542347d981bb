#pragma once

#include "common/hash_seed.hpp"
#include "link/protocol/overlap_wire.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>

namespace peercache::actors {

/// The blocks that the engines of this host say they hold on their GPUs. A reporter is the session
/// of a client; what it has told is dropped with it.
///
/// Threads: none. No clock, no I/O. Bounds: `keys_max` keys of all reporters together, about 40
/// bytes each, and `reporters_max` reporters; what exceeds them is not taken, and counted.
class gpu_window {
public:
  static constexpr std::size_t reporters_max = 64;

  explicit gpu_window(std::size_t keys_max = 0) : keys_max_(keys_max) {}

  /// Takes what a reporter tells. False: there are too many reporters.
  bool take(std::uint64_t reporter, const link::gpu_report& told);
  /// Forgets what a reporter has told. Cost: a step for each key of the window, if this reporter
  /// has told of any.
  void drop(std::uint64_t reporter);

  /// Counts the leading blocks that engines of one data-parallel rank hold. Each block is one page
  /// in each of the TP group's key spaces; each space may be told by a reporter of its own.
  link::gpu_run leading(const link::gpu_question& asked) const;

  bool empty() const noexcept { return held_.empty(); }
  std::size_t keys() const noexcept { return held_.size(); }
  std::size_t reporters() const noexcept { return reporters_.size(); }
  /// Number of keys that reporters told and that found no room, since the start.
  std::uint64_t refused() const noexcept { return refused_; }

private:
  using bits = std::uint64_t; ///< A set of reporters.
  struct reporter {
    bits bit = 0; ///< The bit that stands for this reporter.
    std::uint32_t rank = link::gpu_report::no_rank;
    std::uint64_t keys = 0;
  };
  struct seeded_hash {
    std::size_t operator()(std::uint64_t prefix) const noexcept {
      return hash_seed::mix(prefix, prefix);
    }
  };

  reporter* reporter_of(std::uint64_t id);
  void forget_keys(reporter& who);
  bits holders_of(std::uint64_t prefix) const noexcept;

  std::size_t keys_max_;
  std::map<std::uint64_t, reporter> reporters_;
  bits bits_in_use_ = 0;
  std::unordered_map<std::uint64_t, bits, seeded_hash> held_; ///< The reporters that hold each key.
  std::uint64_t refused_ = 0;
};

} // namespace peercache::actors
