#pragma once

#include <array>
#include <cstdint>

namespace peercache {

/// Secret numbers in the hashes of keys and incarnations. Others choose these, and whoever knows
/// the hash can choose many of one hash, which makes every table of them a list. Fixed in tests and
/// embedded nodes, so that runs repeat; a program that serves others draws them at its start.
class hash_seed {
public:
  /// Draws new numbers. @pre nothing was hashed in this process, which has one thread
  static void draw();

  /// Mixes the 32 bytes of a key, as four numbers.
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                           std::uint64_t d) noexcept {
    return fold(a ^ words_[0], b ^ words_[1]) ^ fold(c ^ words_[2], d ^ words_[3]);
  }
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    return fold(a ^ words_[0], b ^ words_[1]);
  }

private:
  /// The two halves of a product, folded into one number.
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  inline static std::array<std::uint64_t, 4> words_{0x9e3779b97f4a7c15, 0xe7037ed1a0b428db,
                                                    0x8ebc6af09c88c6e3, 0x589965cc75374cc3};
};

} // namespace peercache
