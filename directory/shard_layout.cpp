#include "directory/shard_layout.hpp"

#include "common/hash_seed.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::directory {

namespace {

constexpr std::uint32_t shard_magic = 0x53524450; // "PDRS"

/// Folds the two halves of a product into one number. The constants are odd numbers with as many
/// ones as zeros, so that no word multiplies by a power of two.
constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

constexpr std::uint64_t digest(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                               std::uint64_t d) noexcept {
  return fold(a ^ 0xa0761d6478bd642f, b ^ 0xe7037ed1a0b428db) ^
         fold(c ^ 0x8ebc6af09c88c6e3, d ^ 0x589965cc75374cc3);
}

std::uint64_t mask_of(const unit_words& record, const incarnation& holder) noexcept {
  return digest(record[4], record[5], record[6] ^ holder.high, record[7]) ^
         fold(holder.low ^ 0x1d8e4e27c47d124f, record[6] ^ 0xeb44accab455d165);
}

constexpr unsigned index_bits_width = 8;
constexpr unsigned on_disk_bit = 48;
constexpr unsigned mirrored_bit = 49;

} // namespace

std::uint32_t shard_header::hash_of(const page_key& key) const noexcept {
  const auto words = words_of(key);
  return high_half(digest(words[0] ^ seed, words[1], words[2], words[3] ^ ~seed));
}

unit_words shard_header::encode() const noexcept {
  unit_words words{word_of(shard_layout_version, shard_magic),
                   changes,
                   word_of(index, index_bits | shared_pieces << index_bits_width),
                   word_of(holders_unit, holders),
                   seed,
                   by.term,
                   by.version,
                   0};
  words[7] = digest(words[0] ^ words[4], words[1], words[2], words[3]) ^ fold(words[5], ~words[6]);
  if (forbidden)
    words[0] |= forbidden_bit;
  return words;
}

std::optional<shard_header> shard_header::decode(const unit_words& words) noexcept {
  shard_header header;
  header.changes = words[1];
  header.index = low_half(words[2]);
  header.index_bits = high_half(words[2]) & ((1u << index_bits_width) - 1);
  header.shared_pieces = high_half(words[2]) >> index_bits_width;
  header.holders_unit = low_half(words[3]);
  header.holders = high_half(words[3]);
  header.seed = words[4];
  header.by = {words[5], words[6]};
  header.forbidden = (words[0] & forbidden_bit) != 0;
  if (header.index_bits >= 32 || header.encode() != words)
    return std::nullopt;
  return header;
}

unit_words shard_record::encode(const page_key& key, const incarnation& holder_inc) const noexcept {
  const auto name = words_of(key);
  unit_words words{name[0],
                   name[1],
                   name[2],
                   name[3],
                   gen,
                   checksum,
                   word_of(slot, length_bytes),
                   std::uint64_t{next} | std::uint64_t{holder} << 32 |
                       std::uint64_t{where == tier::disk} << on_disk_bit |
                       std::uint64_t{mirrored} << mirrored_bit};
  words[0] ^= mask_of(words, holder_inc);
  return words;
}

shard_record shard_record::decode(const unit_words& words) noexcept {
  return {.gen = words[4],
          .checksum = words[5],
          .slot = low_half(words[6]),
          .length_bytes = high_half(words[6]),
          .next = next_in(words),
          .holder = holder_in(words),
          .where = (words[7] >> on_disk_bit & 1) != 0 ? tier::disk : tier::memory,
          .mirrored = (words[7] >> mirrored_bit & 1) != 0};
}

page_location shard_record::location(const shard_holder& at) const noexcept {
  return {.node = at.node,
          .holder = at.inc,
          .gen = {gen},
          .checksum = checksum,
          .slot = {slot},
          .length_bytes = length_bytes,
          .where = where,
          .mirrored = mirrored};
}

void add_location(const page_location& location, std::span<page_location> to,
                  std::size_t& count) noexcept {
  auto at = count;
  if (location.where == tier::memory)
    while (at > 0 && to[at - 1].where == tier::disk)
      --at;
  if (at == to.size())
    return;
  if (at < count) {
    count = std::min(count + 1, to.size());
    for (auto last = count - 1; last > at; --last)
      to[last] = to[last - 1];
  } else {
    ++count;
  }
  to[at] = location;
}

page_key key_in(const unit_words& record, const incarnation& holder) noexcept {
  const key_words name{record[0] ^ mask_of(record, holder), record[1], record[2], record[3]};
  page_key key;
  std::memcpy(key.bytes.data(), name.data(), sizeof name);
  return key;
}

bool is_of(const unit_words& record, const key_words& key, const incarnation& holder) noexcept {
  return ((record[1] ^ key[1]) | (record[2] ^ key[2]) | (record[3] ^ key[3])) == 0 &&
         (record[0] ^ mask_of(record, holder)) == key[0];
}

shard_holder::words shard_holder::encode() const noexcept {
  words to{inc.high, inc.low, node.value, gone ? std::uint64_t{1} : 0};
  to[3] |= digest(to[0], to[1], to[2], to[3]) & ~std::uint64_t{1};
  return to;
}

std::optional<shard_holder> shard_holder::decode(const words& from) noexcept {
  const auto holder = from_whole(from);
  if (holder.encode() != from)
    return std::nullopt;
  return holder;
}

} // namespace peercache::directory
