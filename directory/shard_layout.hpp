#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "directory/page_location.hpp"
#include "directory/word_digest.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// The memory of a directory shard as its readers see it: threads of the same process
/// (directory/shard_search.hpp), and other hosts that READ it over RDMA
/// (directory/remote_search.hpp). Little endian; any change is another `shard_layout_version`.
///
/// The memory is cut into units of 64 bytes, one cache line each; a unit's number times 64 is its
/// offset. Unit 0 is the header. A unit never moves, and its memory is not given back while the
/// shard lives, so that a reader with an old number reads old bytes and nothing worse.
///
///   header  word 0  magic and `shard_layout_version`; bit 63: other hosts have to ask the shard's
///                   node (set by any thread of the node, and no part of the digest)
///                1  changes: grows whenever another word of the header, or a holder, changes;
///                   odd: such a change is under way
///                2  low half: first unit of the index; bits 32-39: log2 of its number of lines;
///                   bits 40-63: how many pieces of `piece_units` units other processes of the
///                   host may read
///                3  low half: first unit of the holders; high half: their number
///                4  seed of the keys' hashes
///              5-6  term and version of the view by which the shard answers; zero: other hosts
///                   have to ask its node
///                7  digest of words 0 to 6
///   line    word 0  low half: how many keys passed this line on the way to their place, because
///                   it was full; high half: version, odd while records of its places change
///              1-7  places: high half: hash of the key, low half: unit of its first record;
///                   0: empty
///   record  word 0  first word of the key, XOR a digest of words 4 to 7 and of the holder's
///                   incarnation
///              1-3  the key's other words
///              4-5  generation, checksum
///                6  low half: slot; high half: length in bytes
///                7  bits 0-31: unit of the key's next record, 0: none; 32-47: holder's number,
///                   `no_holder`: the record is free; 48: on disk; 49: mirrored
///   holder  half a unit: words 0-1 incarnation, 2 node, 3 digest of words 0 to 2 and of the lowest
///                   bit of word 3, which is 1 when the holder has left the cluster
///
/// A key's home is the line that the topmost bits of its hash name. Its place is in the first line
/// from its home on that had room, and stays there until the key's last record is gone or the index
/// grows. (The counts of passing keys instead of tombstones are those of Bronson and Shi, "Open-
/// sourcing F14", 2019. The key XOR the rest of the record shows a torn read without a word of its
/// own: Hyatt and Mann, "A lockless transposition-table implementation for parallel search", 2002.)
namespace peercache::directory {

inline constexpr std::uint32_t shard_layout_version = 1;
inline constexpr std::size_t shard_unit_bytes = 64;
inline constexpr std::size_t words_per_unit = 8;
inline constexpr std::uint32_t piece_units = 4096;
inline constexpr std::size_t places_per_line = words_per_unit - 1;
inline constexpr std::uint16_t no_holder = 0xffff;

using unit_number = std::uint32_t;
using unit_words = std::array<std::uint64_t, words_per_unit>;
inline constexpr unit_number header_unit = 0;
inline constexpr std::uint64_t forbidden_bit = std::uint64_t{1} << 63; ///< In word 0.
inline constexpr std::size_t changes_word = 1; ///< The word of the header that counts changes.
inline constexpr unit_number no_unit = 0;      ///< No record lies in the header's unit.

struct alignas(shard_unit_bytes) shard_unit {
  std::array<std::atomic<std::uint64_t>, words_per_unit> words;
};
static_assert(sizeof(shard_unit) == shard_unit_bytes &&
              std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t word_of(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{high} << 32 | low;
}
constexpr std::uint32_t low_half(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint32_t high_half(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32);
}

/// The four words of a key, in the order of its bytes.
using key_words = std::array<std::uint64_t, 4>;
inline key_words words_of(const page_key& key) noexcept {
  return std::bit_cast<key_words>(key.bytes);
}

struct shard_header {
  std::uint64_t changes = 0;
  unit_number index = no_unit;
  std::uint32_t index_bits = 0; ///< Log2 of the number of lines.
  std::uint32_t shared_pieces = 0;
  unit_number holders_unit = no_unit;
  std::uint32_t holders = 0;
  std::uint64_t seed = 0;
  view_number by;
  bool forbidden = false; ///< Other hosts have to ask.

  /// Whether other processes of the host may read `count` units from `first` on.
  bool shared(std::uint64_t first, std::uint64_t count) const noexcept {
    return first + count <= std::uint64_t{shared_pieces} * piece_units;
  }
  bool whole() const noexcept { return changes % 2 == 0; }
  std::uint32_t hash_of(const page_key& key) const noexcept {
    const auto words = words_of(key);
    return high_half(word_digest(words[0] ^ seed, words[1], words[2], words[3] ^ ~seed));
  }
  std::uint32_t lines() const noexcept { return std::uint32_t{1} << index_bits; }
  /// The number, in the index, of the line at which the search for a key begins.
  std::uint32_t home_of(std::uint32_t hash) const noexcept {
    return index_bits == 0 ? 0 : hash >> (32 - index_bits);
  }
  unit_number line_unit(std::uint32_t line) const noexcept {
    return index + (line & (lines() - 1));
  }
  unit_number holder_unit(std::uint16_t holder) const noexcept { return holders_unit + holder / 2; }

  unit_words encode() const noexcept;
  /// Nothing for words that are no header of this layout.
  static std::optional<shard_header> decode(const unit_words& words) noexcept;
  bool operator==(const shard_header&) const = default;
};

constexpr std::uint32_t keys_passed(std::uint64_t line_word) noexcept {
  return low_half(line_word);
}
constexpr bool line_changes(std::uint64_t line_word) noexcept {
  return high_half(line_word) % 2 != 0;
}

struct shard_holder {
  incarnation inc;
  node_id node;
  bool gone = false;

  using words = std::array<std::uint64_t, words_per_unit / 2>;
  words encode() const noexcept;
  /// The holder in these words, which are whole.
  static shard_holder from_whole(const words& from) noexcept {
    return {{from[0], from[1]}, {from[2]}, (from[3] & 1) != 0};
  }
  /// Nothing for words that are not a whole holder.
  static std::optional<shard_holder> decode(const words& from) noexcept;
};

inline constexpr unsigned on_disk_bit = 48; ///< In word 7 of a record.
inline constexpr unsigned mirrored_bit = 49;

/// The holder's number in the words of a record, and its unit of the key's next record.
constexpr std::uint16_t holder_in(const unit_words& record) noexcept {
  return static_cast<std::uint16_t>(record[7] >> 32);
}
constexpr unit_number next_in(const unit_words& record) noexcept {
  return low_half(record[7]);
}

/// A record as its words say it, but for the key.
struct shard_record {
  std::uint64_t gen = 0;
  std::uint64_t checksum = 0;
  std::uint32_t slot = 0;
  std::uint32_t length_bytes = 0;
  unit_number next = no_unit; ///< In a free record the next free one.
  std::uint16_t holder = no_holder;
  tier where = tier::memory;
  bool mirrored = false;

  unit_words encode(const page_key& key, const incarnation& holder_inc) const noexcept;
  static shard_record decode(const unit_words& words) noexcept {
    return {.gen = words[4],
            .checksum = words[5],
            .slot = low_half(words[6]),
            .length_bytes = high_half(words[6]),
            .next = next_in(words),
            .holder = holder_in(words),
            .where = (words[7] >> on_disk_bit & 1) != 0 ? tier::disk : tier::memory,
            .mirrored = (words[7] >> mirrored_bit & 1) != 0};
  }
  page_location location(const shard_holder& at) const noexcept {
    return {.node = at.node,
            .holder = {at.inc.high, at.inc.low},
            .gen = {gen},
            .checksum = checksum,
            .slot = {slot},
            .length_bytes = length_bytes,
            .where = where,
            .mirrored = mirrored};
  }
};

/// Digest of a record's words 4 to 7 and of its holder.
inline std::uint64_t record_mask(const unit_words& record, const incarnation& holder) noexcept {
  return word_digest(record[4], record[5], record[6] ^ holder.high, record[7]) ^
         folded_product(holder.low ^ 0x1d8e4e27c47d124f, record[6] ^ 0xeb44accab455d165);
}

/// The key of the record in these words, if its holder is `holder`. A record that was torn, or
/// whose holder is another one, has a key that nothing else has.
page_key key_in(const unit_words& record, const incarnation& holder) noexcept;
/// Whether the record in these words is whole, and is `holder`'s of `key`.
inline bool is_of(const unit_words& record, const key_words& key,
                  const incarnation& holder) noexcept {
  return ((record[1] ^ key[1]) | (record[2] ^ key[2]) | (record[3] ^ key[3])) == 0 &&
         (record[0] ^ record_mask(record, holder)) == key[0];
}
/// As `add_location`, for any number of locations.
void insert_location(const page_location& location, std::span<page_location> to,
                     std::size_t& count) noexcept;
/// Adds a location behind all others, or, in memory, behind those in memory; leaves it out when
/// `to` is full of locations that come before. @param count of locations in `to`
inline void add_location(const page_location& location, std::span<page_location> to,
                         std::size_t& count) noexcept {
  if (count == 0 && !to.empty())
    to[count++] = location; // The usual case: one holder.
  else
    insert_location(location, to, count);
}

} // namespace peercache::directory
