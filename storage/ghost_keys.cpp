#include "storage/ghost_keys.hpp"

#include "common/assert.hpp"

namespace peercache::storage {

namespace {

/// A key's fingerprint is the upper half of its mixed digest, because the lower half decides which
/// keys a shadow cache samples.
constexpr std::uint32_t fingerprint_of(std::uint64_t key_digest) noexcept {
  return static_cast<std::uint32_t>(mixed(key_digest) >> 32);
}

} // namespace

void ghost_keys::remember(std::uint64_t key_digest, std::size_t limit) {
  take(key_digest, limit);
  if (limit == 0) {
    return;
  }
  if (!positions_.has_room_for(limit)) {
    grow(limit);
  }
  while (size_ >= limit || next_ - oldest_ == ring_.size()) {
    forget_oldest();
  }
  push(fingerprint_of(key_digest));
}

bool ghost_keys::take(std::uint64_t key_digest, std::size_t limit) noexcept {
  forget_beyond(limit);
  const std::uint32_t position = find(fingerprint_of(key_digest));
  if (position == probe_cells::none) {
    return false;
  }
  forget(position);
  return true;
}

std::size_t ghost_keys::memory_bytes() const noexcept {
  return positions_.memory_bytes() + ring_.capacity() * sizeof(ring_[0]);
}

std::uint32_t ghost_keys::position_of(std::uint64_t sequence) const noexcept {
  return static_cast<std::uint32_t>(sequence % ring_.size());
}

std::uint32_t ghost_keys::find(std::uint32_t fingerprint) const noexcept {
  return positions_.find(fingerprint, [&](std::uint32_t it) { return ring_[it] == fingerprint; });
}

void ghost_keys::push(std::uint32_t fingerprint) noexcept {
  const std::uint32_t position = position_of(next_++);
  ring_[position] = fingerprint;
  positions_.insert(fingerprint, position);
  ++size_;
}

void ghost_keys::forget(std::uint32_t position) noexcept {
  positions_.erase(ring_[position], position, [this](std::uint32_t it) { return ring_[it]; });
  --size_;
}

/// Moves `oldest_` over one entry of the ring, which may be a gap.
void ghost_keys::forget_oldest() noexcept {
  PEERCACHE_ASSERT(oldest_ < next_);
  const std::uint32_t position = position_of(oldest_++);
  // A key that was taken and remembered again has its fingerprint in the ring twice, so the entry
  // is compared by its position.
  if (find(ring_[position]) == position) {
    forget(position);
  }
}

void ghost_keys::forget_beyond(std::size_t limit) noexcept {
  while (size_ > limit) {
    forget_oldest();
  }
}

void ghost_keys::grow(std::size_t limit) {
  std::vector<std::uint32_t> kept;
  kept.reserve(size_);
  for (; oldest_ < next_; forget_oldest()) {
    const std::uint32_t position = position_of(oldest_);
    if (find(ring_[position]) == position) {
      kept.push_back(ring_[position]);
    }
  }
  positions_.grow(limit, [](std::uint32_t) { return 0u; });
  ring_.assign(limit * 5 / 3 + 8, 0);
  oldest_ = next_ = 0;
  for (const std::uint32_t fingerprint : kept) {
    push(fingerprint);
  }
}

} // namespace peercache::storage
