#pragma once

#include "discovery/hash_ring.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace peercache::discovery {

/// How long after a change of view readers ask a key's owners in the former view as well. After
/// this time the owners in the new view have been told the records.
inline constexpr std::chrono::milliseconds former_owners_asked{3000};
/// How long a shard keeps records of keys that a new view gives to other owners: longer than
/// readers still ask this shard for such keys.
inline constexpr std::chrono::milliseconds foreign_keys_kept{5000};
static_assert(foreign_keys_kept > former_owners_asked);

/// The hash rings that newer views have replaced within the last `former_owners_asked`. Where views
/// follow each other quickly, only the three newest and the oldest of these rings are kept: the
/// newest tell where records are now, the oldest where they were before the first change. Threads:
/// one at a time; copies share the rings, which nobody changes.
class former_rings {
public:
  using ring_ptr = std::shared_ptr<const hash_ring>;
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kept_max = 4;

  /// Remembers that a newer view replaced `ring` at `now`.
  void remember(ring_ptr ring, time_point now);
  /// The replaced rings whose owners are still to be asked at `now`, newest first; valid as long as
  /// this object.
  std::vector<const hash_ring*> asked_at(time_point now) const;

private:
  struct former {
    ring_ptr ring;
    time_point left_at;
  };

  std::vector<former> rings_; ///< The replaced rings, newest first.
};

} // namespace peercache::discovery
