#pragma once

#include "storage/lru.hpp"
#include "storage/s3fifo.hpp"
#include "storage/shadow_cache.hpp"

#include <variant>

namespace peercache::storage {

/// Settings of an `adaptive_policy`. The defaults are chosen on a real trace and five samples of
/// its keys (bench/README.md): slow to switch, because a switch costs more than a policy that is a
/// little worse for a while.
struct adaptive_options {
  /// A shadow cache that holds more pages than this samples half as many keys from then on.
  std::size_t shadow_pages_max = 2048;
  /// The number of sampled references over which the hit rates of both shadow caches are averaged,
  /// exponentially.
  std::uint32_t memory_references = 8192;
  /// By how much the hit rate (0 to 1) of the policy not in use must be higher before that policy
  /// takes over.
  double margin = 0.015;
};

struct adaptive_stats {
  eviction_kind active = eviction_kind::lru;
  std::uint64_t switches = 0;
  std::uint64_t sampled_references = 0;
  double lru_hit_rate = 0; ///< Recent hit rate of the shadow cache that runs LRU.
  double s3fifo_hit_rate = 0;
  double sampled_share = 1; ///< Share of all keys that is in the sample.
};

/// Follows the better of LRU and S3-FIFO. Two shadow caches are shown the references to a sample of
/// the keys (a key is in the sample by its hash, as in SHARDS: C. A. Waldspurger, N. Park, A.
/// Garthwaite, I. Ahmad, "Efficient MRC construction with SHARDS", FAST '15) and are smaller than
/// the pool in the same proportion. An insert is a reference (the page was missed, then filled) and
/// so is a touch. The sample halves and doubles with the number of pages that the pool has room
/// for, so that the shadows hold some hundreds to some thousands of pages each whatever the pool's
/// size. When the policy that is not in use has been better by a margin, it takes over all resident
/// pages in their order. A switch to S3-FIFO takes one step for each page of the small queue, a
/// tenth of the bytes; no other page costs a step.
///
/// Threads: one. Units: bytes. Size: at most 32 (LRU) or 47 (S3-FIFO) bytes per page and 200 KiB
/// for the shadows.
class adaptive_policy final : public eviction_policy {
public:
  /// @pre `capacity_bytes` > 0
  explicit adaptive_policy(std::uint64_t capacity_bytes, adaptive_options options = {});

  void insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) override;
  void touch(slot_id slot) override;
  void erase(slot_id slot) override;
  std::optional<slot_id> victim() override;
  std::optional<slot_id> untouched_victim(const slot_test& may_go) override;

  adaptive_stats stats() const noexcept;
  std::size_t memory_bytes() const noexcept;

private:
  void reference(std::uint64_t key_digest, std::uint32_t length_bytes);
  bool in_sample(std::uint64_t key_digest) const noexcept;
  void fit_sample();
  void set_sample(std::uint32_t halvings);
  void weigh(bool lru_hit, bool s3fifo_hit);
  void switch_to(eviction_kind kind);

  // Members that are constant after construction.
  std::uint64_t capacity_bytes_;
  adaptive_options options_;

  std::variant<lru, s3fifo> active_;
  shadow_cache<lru> shadow_lru_;
  shadow_cache<s3fifo> shadow_s3fifo_;
  std::uint32_t halvings_ = 0; ///< One key in 2^halvings is in the sample.
  double lru_hit_rate_ = 0;
  double s3fifo_hit_rate_ = 0;
  std::uint64_t sampled_references_ = 0;
  std::uint64_t switches_ = 0;
};

} // namespace peercache::storage
