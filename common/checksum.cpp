#include "common/checksum.hpp"

#include "common/assert.hpp"
#include "common/copy_kernels.hpp"

#include <algorithm>
#include <cstring>

// xxHash is used as headers only: the short-input paths and the default secret come from the
// library. The loops over long inputs are ours, because they copy as well.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace peercache {
namespace detail {
namespace {

/// The longest input for which XXH3 has other formulas, which need the whole input.
constexpr std::size_t short_bytes_max = 240;
/// Where the secrets of the last stripe and of the merge start: at odd offsets, so that they differ
/// from the secrets of all other stripes.
constexpr std::size_t last_stripe_secret = secret_bytes - stripe_bytes - 7;
constexpr std::size_t merge_secret = 11;

static_assert(sizeof XXH3_kSecret == secret_bytes);

const std::byte* secret() noexcept {
  return reinterpret_cast<const std::byte*>(XXH3_kSecret);
}

constexpr xxh3_accumulators initial_accumulators = {{XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2,
                                                     XXH_PRIME64_3, XXH_PRIME64_4, XXH_PRIME32_2,
                                                     XXH_PRIME64_5, XXH_PRIME32_1}};

std::uint64_t load_word(const std::byte* from) noexcept {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t multiply_and_fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  auto product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t merge(const xxh3_accumulators& state, std::uint64_t total_bytes) noexcept {
  std::uint64_t sum = total_bytes * XXH_PRIME64_1;
  for (std::size_t i = 0; i < state.lanes.size(); i += 2) {
    auto* key = secret() + merge_secret + 8 * i;
    sum +=
        multiply_and_fold(state.lanes[i] ^ load_word(key), state.lanes[i + 1] ^ load_word(key + 8));
  }
  sum = (sum ^ (sum >> 37)) * 0x165667919E3779F9u;
  return sum ^ (sum >> 32);
}

/// Returns the digest of an input. `state` holds all of its blocks but the last one, which has 1 ..
/// block_bytes bytes.
/// @pre total_bytes > short_bytes_max, and the stripe before `last_block` can be read if the block
/// is shorter than a stripe.
std::uint64_t finish(const copy_kernels& kernels, xxh3_accumulators state,
                     const std::byte* last_block, std::size_t last_block_bytes,
                     std::uint64_t total_bytes) noexcept {
  kernels.hash_stripes(state, secret(), last_block, (last_block_bytes - 1) / stripe_bytes);
  kernels.hash_stripes(state, secret() + last_stripe_secret,
                       last_block + last_block_bytes - stripe_bytes, 1);
  return checksum_from(merge(state, total_bytes));
}

/// Returns how many blocks of an input stand before its last one, which is never scrambled. A block
/// is known not to be the last only when a byte follows it, so an input of exactly one block has
/// none before it.
std::size_t blocks_before_last(std::size_t size_bytes) noexcept {
  return (size_bytes - 1) / block_bytes;
}

} // namespace

std::uint64_t checksum_with(const copy_kernels& kernels,
                            std::span<const std::byte> bytes) noexcept {
  if (bytes.size() <= short_bytes_max)
    return checksum_from(XXH3_64bits(bytes.data(), bytes.size()));
  auto state = initial_accumulators;
  auto blocks = blocks_before_last(bytes.size());
  kernels.hash_blocks(state, secret(), bytes.data(), blocks);
  auto last = bytes.subspan(blocks * block_bytes);
  return finish(kernels, state, last.data(), last.size(), bytes.size());
}

std::uint64_t copy_and_checksum_with(const copy_kernels& kernels, std::span<std::byte> to,
                                     std::span<const std::byte> from) noexcept {
  PEERCACHE_ASSERT(to.size() == from.size());
  if (from.size() <= short_bytes_max) {
    kernels.copy(to.data(), from.data(), from.size());
    return checksum_from(XXH3_64bits(from.data(), from.size()));
  }
  auto state = initial_accumulators;
  auto blocks = blocks_before_last(from.size());
  if (blocks > 0)
    kernels.copy_and_hash_blocks(state, secret(), to.data(), from.data(), blocks);
  auto last = from.subspan(blocks * block_bytes);
  kernels.copy(to.data() + blocks * block_bytes, last.data(), last.size());
  return finish(kernels, state, last.data(), last.size(), from.size());
}

} // namespace detail

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  return detail::checksum_with(detail::best_kernels(), bytes);
}

checksum_stream::checksum_stream() noexcept : checksum_stream(detail::best_kernels()) {}

checksum_stream::checksum_stream(const detail::copy_kernels& kernels) noexcept
    : kernels_(&kernels) {
  reset();
}

void checksum_stream::reset() noexcept {
  state_ = detail::initial_accumulators;
  total_bytes_ = 0;
}

void checksum_stream::update(std::span<const std::byte> bytes) noexcept {
  take(nullptr, bytes);
}

void checksum_stream::copy_and_update(std::span<std::byte> to,
                                      std::span<const std::byte> from) noexcept {
  PEERCACHE_ASSERT(to.size() == from.size());
  take(to.data(), from);
}

std::size_t checksum_stream::held_bytes() const noexcept {
  return total_bytes_ == 0 ? 0
                           : static_cast<std::size_t>(total_bytes_ - 1) % detail::block_bytes + 1;
}

void checksum_stream::take(std::byte* to, std::span<const std::byte> from) noexcept {
  if (from.empty())
    return;
  auto room = detail::block_bytes - held_bytes();
  if (total_bytes_ != 0 || from.size() <= room) {
    auto fill = from.first(std::min(room, from.size()));
    hold(to, fill);
    from = from.subspan(fill.size());
    if (from.empty())
      return;
    to = to == nullptr ? nullptr : to + fill.size();
    kernels_->hash_blocks(state_, detail::secret(), held(), 1);
    keep_last_stripe(held() + detail::block_bytes);
  }
  take_blocks(to, from);
}

void checksum_stream::take_blocks(std::byte* to, std::span<const std::byte> from) noexcept {
  auto blocks = detail::blocks_before_last(from.size());
  auto size_bytes = blocks * detail::block_bytes;
  if (blocks > 0) {
    if (to == nullptr)
      kernels_->hash_blocks(state_, detail::secret(), from.data(), blocks);
    else
      kernels_->copy_and_hash_blocks(state_, detail::secret(), to, from.data(), blocks);
    total_bytes_ += size_bytes;
    keep_last_stripe(from.data() + size_bytes);
  }
  // The bytes taken so far are whole blocks, so the rest of `from` starts a new held block.
  auto rest = from.subspan(size_bytes);
  std::memcpy(held(), rest.data(), rest.size());
  if (to != nullptr)
    kernels_->copy(to + size_bytes, rest.data(), rest.size());
  total_bytes_ += rest.size();
}

void checksum_stream::hold(std::byte* to, std::span<const std::byte> bytes) noexcept {
  if (bytes.empty())
    return;
  std::memcpy(held() + held_bytes(), bytes.data(), bytes.size());
  if (to != nullptr)
    std::memcpy(to, bytes.data(), bytes.size());
  total_bytes_ += bytes.size();
}

void checksum_stream::keep_last_stripe(const std::byte* end) noexcept {
  std::memcpy(window_, end - detail::stripe_bytes, detail::stripe_bytes);
}

std::uint64_t checksum_stream::digest() const noexcept {
  auto* held_block = window_ + detail::stripe_bytes;
  if (total_bytes_ <= detail::short_bytes_max)
    return checksum_from(XXH3_64bits(held_block, static_cast<std::size_t>(total_bytes_)));
  return detail::finish(*kernels_, state_, held_block, held_bytes(), total_bytes_);
}

} // namespace peercache
