#include "storage/ghost_keys.hpp"

#include "storage/page_table.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace peercache::storage {

namespace {

/// The upper half: the lower one decides which keys a shadow cache samples.
constexpr std::uint32_t fingerprint_of(std::uint64_t key_digest) noexcept {
  return static_cast<std::uint32_t>(mixed(key_digest) >> 32);
}

} // namespace

void ghost_keys::remember(std::uint64_t key_digest, std::size_t limit) {
  constexpr std::size_t entries_per_bucket = std::tuple_size_v<decltype(bucket::entries)>;
  if (limit * 4 > buckets_.size() * entries_per_bucket * 3) {
    grow(limit);
  }
  if (buckets_.empty()) {
    return;
  }
  stamp_ = std::max(stamp_ + 1, 1u); // 0 means empty, also after 2^32 evictions.
  const std::uint32_t fingerprint = fingerprint_of(key_digest);
  bucket& where = bucket_of(fingerprint);
  const auto same = std::find_if(where.entries.begin(), where.entries.end(), [&](const entry& it) {
    return it.stamp != 0 && it.fingerprint == fingerprint;
  });
  entry& place = same != where.entries.end() ? *same : oldest_in(where);
  place = {fingerprint, stamp_};
}

bool ghost_keys::take(std::uint64_t key_digest, std::size_t limit) noexcept {
  if (buckets_.empty()) {
    return false;
  }
  const std::uint32_t fingerprint = fingerprint_of(key_digest);
  for (entry& it : bucket_of(fingerprint).entries) {
    if (it.stamp != 0 && it.fingerprint == fingerprint) {
      return age_of(std::exchange(it, entry{})) < limit;
    }
  }
  return false;
}

std::uint64_t ghost_keys::age_of(const entry& it) const noexcept {
  return it.stamp == 0 ? std::numeric_limits<std::uint64_t>::max() : stamp_ - it.stamp;
}

ghost_keys::bucket& ghost_keys::bucket_of(std::uint32_t fingerprint) noexcept {
  return buckets_[(static_cast<std::uint64_t>(fingerprint) * buckets_.size()) >> 32];
}

ghost_keys::entry& ghost_keys::oldest_in(bucket& where) const noexcept {
  return *std::max_element(
      where.entries.begin(), where.entries.end(),
      [this](const entry& left, const entry& right) { return age_of(left) < age_of(right); });
}

void ghost_keys::grow(std::size_t limit) {
  constexpr std::size_t entries_per_bucket = std::tuple_size_v<decltype(bucket::entries)>;
  // 16/9 of the limit: a third more than the 4/3 that a full table has.
  const std::size_t count = limit * 16 / 9 / entries_per_bucket + 1;
  std::vector<bucket> old = std::exchange(buckets_, std::vector<bucket>(count));
  for (const bucket& from : old) {
    for (const entry& it : from.entries) {
      entry& place = oldest_in(bucket_of(it.fingerprint));
      if (it.stamp != 0 && age_of(it) < age_of(place)) {
        place = it;
      }
    }
  }
}

} // namespace peercache::storage
