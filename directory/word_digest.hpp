#pragma once

#include <cstdint>

namespace peercache::directory {

/// Folds the two halves of a product into one number.
constexpr std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Digest of four words, for a shard's memory (directory/shard_layout.hpp): any change is another
/// `shard_layout_version`. The constants are odd numbers with as many ones as zeros, so that no
/// word multiplies by a power of two.
constexpr std::uint64_t word_digest(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                                    std::uint64_t d) noexcept {
  return folded_product(a ^ 0xa0761d6478bd642f, b ^ 0xe7037ed1a0b428db) ^
         folded_product(c ^ 0x8ebc6af09c88c6e3, d ^ 0x589965cc75374cc3);
}

} // namespace peercache::directory
