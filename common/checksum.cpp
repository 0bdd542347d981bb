#include "common/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace peercache {

static_assert(sizeof(XXH3_state_t) <= 640 && alignof(XXH3_state_t) <= 64);

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void checksum_stream::reset() noexcept {
  XXH3_64bits_reset(::new (state_) XXH3_state_t);
}

void checksum_stream::update(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

std::uint64_t checksum_stream::digest() const noexcept {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
}

} // namespace peercache
