#pragma once

#include "common/guards.hpp"
#include "common/limits.hpp"
#include "directory/shard_layout.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::directory {

/// The memory of a shard in this process, for `shard_search`.
class mapped_shard {
public:
  explicit mapped_shard(const shard_unit* base) noexcept : base_(base) {}
  std::uint64_t load(unit_number unit, std::size_t word,
                     std::memory_order order = std::memory_order_relaxed) const noexcept {
    return base_[unit].words[word].load(order);
  }
  void prefetch(unit_number unit) const noexcept { __builtin_prefetch(base_ + unit); }
  static bool covers(const shard_header&, std::uint64_t, std::uint64_t) noexcept { return true; }

protected:
  const shard_unit* base_;
};

/// The memory of a shard of another process of this host.
class attached_units : public mapped_shard {
public:
  using mapped_shard::mapped_shard;
  static bool covers(const shard_header& header, std::uint64_t first,
                     std::uint64_t count) noexcept {
    return header.shared(first, count);
  }
};

/// Finds records in the memory of a shard that another thread may change meanwhile.
///
/// The rule: what was read of a key counts only if the line with the key's place had the same even
/// version before and after, and the header was the same and even at the end. Until then no list is
/// followed further than a key's can be; the unit numbers in it, however old, are those of units.
/// Otherwise the key is read again, `tries_max` times in all; `changing` says that this was not
/// enough, as when the writer was stopped in the middle of a change: ask the actor.
/// (docs/memory_order.md has the orders.)
///
/// @tparam Memory `load(unit, word, order)` returns a word, `prefetch(unit)` begins to load a unit
/// into the cache, and `covers(header, first, count)` says whether units may be read.
///
/// Threads: any number beside one writer. Nothing is allocated.
template <class Memory>
class shard_search {
public:
  static constexpr int tries_max = 64;

  explicit shard_search(Memory memory) noexcept : memory_(memory) {}

  /// Reads the header. False: it is being changed, or names memory that may not be read.
  bool begin() noexcept {
    for (int i = 0; i < tries_max; ++i) {
      const auto read = shard_header::decode(load(header_unit));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (read && read->whole() && memory_.covers(*read, read->index, read->lines()) &&
          memory_.covers(*read, read->holders_unit, (read->holders + 1) / 2)) {
        header_ = *read;
        return true;
      }
    }
    return false;
  }
  /// @pre `begin` was true
  const shard_header& header() const noexcept { return header_; }

  /// Writes the locations of `key` to `out`, memory before disk, and returns how many; nothing when
  /// the shard changes all the time. @pre `begin` was true
  std::optional<std::size_t> find(const page_key& key, std::span<page_location> out) noexcept {
    return find(key, header_.hash_of(key), out);
  }
  /// As above, with the key's hash by `header`.
  std::optional<std::size_t> find(const page_key& key, std::uint32_t hash,
                                  std::span<page_location> out) noexcept {
    for (int i = 0; i < tries_max; ++i) {
      const auto count = find_once(key, hash, out);
      if (count && unchanged())
        return *count; // The number: an optional would be copied through memory.
      if (!begin())
        return std::nullopt;
    }
    return std::nullopt;
  }

  void prefetch_line(std::uint32_t hash) const noexcept {
    memory_.prefetch(header_.line_unit(header_.home_of(hash)));
  }

  /// A look at a key's home, for `find` of this key later on, when the record is in the cache.
  struct glance {
    unit_number line = no_unit;
    unit_number first = no_unit; ///< The first record that may be the key's.
    std::uint64_t before = 0;    ///< Word 0 of the line.
    std::uint64_t changes = 0;   ///< The header's count.
  };
  glance look_ahead(std::uint32_t hash) const noexcept {
    glance seen{header_.line_unit(header_.home_of(hash))};
    seen.changes = header_.changes;
    seen.before = memory_.load(seen.line, 0, std::memory_order_acquire);
    for (std::size_t word = 1; word < words_per_unit; ++word)
      if (const auto place = memory_.load(seen.line, word); may_be_of(place, hash)) {
        std::atomic_thread_fence(std::memory_order_acquire);
        seen.first = low_half(place);
        memory_.prefetch(seen.first);
        break;
      }
    return seen;
  }
  /// As `find`, for a key whose home was looked at.
  std::optional<std::size_t> find(const page_key& key, std::uint32_t hash, const glance& seen,
                                  std::span<page_location> out) noexcept {
    std::size_t count = 0;
    const bool found = seen.first != no_unit && !line_changes(seen.before) &&
                       follow(seen.first, words_of(key), out, count) == step::found;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (found && memory_.load(seen.line, 0) == seen.before &&
        memory_.load(header_unit, changes_word) == seen.changes)
      return count;
    return find(key, hash, out);
  }

private:
  static bool may_be_of(std::uint64_t place, std::uint32_t hash) noexcept {
    return high_half(place) == hash && place != 0;
  }

  /// The words are named one by one, so that they stay in registers: a loop stores them, and what
  /// is then loaded in other widths waits for the stores.
  unit_words load(unit_number unit) const noexcept {
    return {memory_.load(unit, 0), memory_.load(unit, 1), memory_.load(unit, 2),
            memory_.load(unit, 3), memory_.load(unit, 4), memory_.load(unit, 5),
            memory_.load(unit, 6), memory_.load(unit, 7)};
  }

  bool unchanged() const noexcept {
    return memory_.load(header_unit, changes_word) == header_.changes || !guard_on(guard::reread);
  }

  /// Nothing: something changed meanwhile.
  std::optional<std::size_t> find_once(const page_key& key, std::uint32_t hash,
                                       std::span<page_location> out) const noexcept {
    const auto name = words_of(key);
    const auto home = header_.home_of(hash);
    for (std::uint32_t i = 0; i < header_.lines(); ++i) {
      const auto line = header_.line_unit(home + i);
      const auto before = memory_.load(line, 0, std::memory_order_acquire);
      if (line_changes(before) && guard_on(guard::reread))
        return std::nullopt;
      std::size_t count = 0;
      const auto status = search_line(line, hash, name, out, count);
      std::atomic_thread_fence(std::memory_order_acquire);
      const bool same = memory_.load(line, 0) == before || !guard_on(guard::reread);
      if (status == step::torn || !same)
        return std::nullopt;
      if (status == step::found)
        return count;
      if (keys_passed(before) == 0)
        return 0;
    }
    return 0;
  }

  enum class step : std::uint8_t { found, not_here, torn };

  step search_line(unit_number line, std::uint32_t hash, const key_words& key,
                   std::span<page_location> out, std::size_t& count) const noexcept {
    for (std::size_t word = 1; word < words_per_unit; ++word) {
      const auto place = memory_.load(line, word);
      if (!may_be_of(place, hash))
        continue;
      // The record that the place names is read as it was when it was named, or later.
      std::atomic_thread_fence(std::memory_order_acquire);
      if (const auto status = follow(low_half(place), key, out, count); status != step::not_here)
        return status;
    }
    return step::not_here;
  }

  /// Follows the list of records that begins at `first`, if these are records of the key.
  step follow(unit_number first, const key_words& key, std::span<page_location> out,
              std::size_t& count) const noexcept {
    auto next = first;
    for (std::uint32_t i = 0; next != no_unit; ++i) {
      if (i == limits::locations_per_key_max || !memory_.covers(header_, next, 1))
        return step::torn;
      const auto words = load(next);
      const auto number = holder_in(words);
      if (number >= header_.holders)
        return step::torn;
      const auto holder = load_holder(number);
      if (!is_of(words, key, holder.inc))
        return i == 0 ? step::not_here : step::torn;
      if (!holder.gone)
        add_location(shard_record::decode(words).location(holder), out, count);
      next = next_in(words);
    }
    return step::found;
  }

  shard_holder load_holder(std::uint16_t number) const noexcept {
    const auto unit = header_.holder_unit(number);
    const auto first = number % 2 * shard_holder::words{}.size();
    return shard_holder::from_whole({memory_.load(unit, first), memory_.load(unit, first + 1),
                                     memory_.load(unit, first + 2), memory_.load(unit, first + 3)});
  }

  Memory memory_;
  shard_header header_;
};

} // namespace peercache::directory
