#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "directory/page_location.hpp"
#include "directory/shard_layout.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace peercache::directory {

/// What the lines of other hosts' shards led to when they were READ, for keys of one record: a line
/// that is READ again with the same words, and in the same state of its shard's header, leads to
/// the same record, which then need not be READ.
///
/// Each change of a record takes its line's version two steps further, and a record that is added
/// takes a place of the line. So between two READs of the same words, whose version is even,
/// nothing of the line's records has changed: at one change in 30 ns, which no shard makes, the
/// version would take `lasts` to come back.
///
/// Threads: any. Bounds: `lines_max` keys; a key takes the place of another one.
class known_lines {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t lines_max = 8192;
  static constexpr std::chrono::seconds lasts{60};

  /// The state of a shard in which a line was READ.
  struct state {
    incarnation shard;         ///< The process whose shard this is.
    std::uint64_t changes = 0; ///< The shard's header counts them.
    bool operator==(const state&) const = default;
  };
  struct line {
    std::uint32_t number = 0; ///< Counted from the key's home on.
    unit_words words{};
    page_location found;
  };

  /// Notes what the line led to. Leaves out a line that was changing.
  void keep(const page_key& key, std::uint32_t hash, const state& in, const line& what,
            time_point now);
  /// Finds what the key's line was in this state. False: it is not known.
  bool find(const page_key& key, std::uint32_t hash, const state& in, time_point now,
            line& out) const;

private:
  struct entry {
    page_key key;
    state in;
    line what;
    time_point kept_at;
  };
  static std::size_t place_of(std::uint32_t hash, const state& in) noexcept {
    return (hash ^ in.shard.low) % lines_max;
  }

  mutable std::mutex lock_;
  std::unique_ptr<entry[]> entries_; ///< Guarded by lock_. Null until the first `keep`.
};

} // namespace peercache::directory
