#pragma once

#include <array>
#include <cstdint>

namespace peercache {

/// Secret numbers that go into the hashes of keys and incarnations. Other processes choose keys and
/// incarnations, and with a known hash function they could choose many with one hash, which would
/// turn every hash table into a list. The numbers are fixed in tests and embedded nodes, so that
/// runs repeat; a program that serves other processes draws them at its start.
class hash_seed {
public:
  /// Draws new numbers. @pre nothing was hashed in this process, which has one thread
  static void draw();

  /// Hashes the 32 bytes of a key, given as four numbers.
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                           std::uint64_t d) noexcept {
    return fold(a ^ words_[0], b ^ words_[1]) ^ fold(c ^ words_[2], d ^ words_[3]);
  }
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
    return fold(a ^ words_[0], b ^ words_[1]);
  }

private:
  /// Folds the two halves of the product of `a` and `b` into one number.
  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  inline static std::array<std::uint64_t, 4> words_{0x9e3779b97f4a7c15, 0xe7037ed1a0b428db,
                                                    0x8ebc6af09c88c6e3, 0x589965cc75374cc3};
};

} // namespace peercache
