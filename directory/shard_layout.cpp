#include "directory/shard_layout.hpp"

#include "common/hash_seed.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::directory {

namespace {

constexpr std::uint32_t shard_magic = 0x53524450; // "PDRS"

constexpr unsigned index_bits_width = 8;

} // namespace

unit_words shard_header::encode() const noexcept {
  unit_words words{word_of(shard_layout_version, shard_magic),
                   changes,
                   word_of(index, index_bits | shared_pieces << index_bits_width),
                   word_of(holders_unit, holders),
                   seed,
                   by.term,
                   by.version,
                   0};
  words[7] = word_digest(words[0] ^ words[4], words[1], words[2], words[3]) ^
             folded_product(words[5], ~words[6]);
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
  words[0] ^= record_mask(words, holder_inc);
  return words;
}

void insert_location(const page_location& location, std::span<page_location> to,
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
  const key_words name{record[0] ^ record_mask(record, holder), record[1], record[2], record[3]};
  page_key key;
  std::memcpy(key.bytes.data(), name.data(), sizeof name);
  return key;
}

shard_holder::words shard_holder::encode() const noexcept {
  words to{inc.high, inc.low, node.value, gone ? std::uint64_t{1} : 0};
  to[3] |= word_digest(to[0], to[1], to[2], to[3]) & ~std::uint64_t{1};
  return to;
}

std::optional<shard_holder> shard_holder::decode(const words& from) noexcept {
  const auto holder = from_whole(from);
  if (holder.encode() != from)
    return std::nullopt;
  return holder;
}

} // namespace peercache::directory
