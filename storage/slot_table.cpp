#include "storage/slot_table.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/store_fence.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace peercache::storage {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

// A key travels as relaxed atomic words, because a reader of another process may look while the
// owner writes: a torn key is then a mismatch and not undefined behaviour.
using key_word = std::uint64_t __attribute__((may_alias));
constexpr std::size_t key_words = sizeof(page_key) / sizeof(key_word);
static_assert(sizeof(page_key) % sizeof(key_word) == 0);
static_assert(offsetof(slot_entry, key) % alignof(std::uint64_t) == 0);

static_assert(offsetof(client_entry, key) % alignof(std::uint64_t) == 0);

// `Entry` is a `slot_entry` or a `client_entry`.

template <class Entry>
const key_word* words_of(const Entry& entry) noexcept {
  return reinterpret_cast<const key_word*>(entry.key.bytes.data());
}

template <class Entry>
void store_key(Entry& entry, const page_key& key) noexcept {
  std::array<std::uint64_t, key_words> words;
  std::memcpy(words.data(), key.bytes.data(), sizeof key);
  auto* to = reinterpret_cast<key_word*>(entry.key.bytes.data());
  for (std::size_t i = 0; i < key_words; ++i)
    __atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
}

/// Orders the odd generation, which another thread may have stored, before the caller's stores to
/// what it covers. That thread's own fence orders only its own later stores.
void fence_before_storing() noexcept {
  std::atomic_thread_fence(memory_order_release);
}

template <class Entry>
void store_page(Entry& entry, const page_key& key, std::uint32_t length_bytes,
                std::uint64_t checksum) noexcept {
  fence_before_storing();
  store_key(entry, key);
  __atomic_store_n(&entry.length_bytes, length_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&entry.checksum, checksum, __ATOMIC_RELAXED);
}

template <class Entry>
page_key load_key(const Entry& entry) noexcept {
  std::array<std::uint64_t, key_words> words;
  for (std::size_t i = 0; i < key_words; ++i)
    words[i] = __atomic_load_n(words_of(entry) + i, __ATOMIC_RELAXED);
  page_key key;
  std::memcpy(key.bytes.data(), words.data(), sizeof key);
  return key;
}

template <class Entry>
bool key_equals(const Entry& entry, const page_key& key) noexcept {
  std::array<std::uint64_t, key_words> words;
  std::memcpy(words.data(), key.bytes.data(), sizeof key);
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < key_words; ++i)
    difference |= words[i] ^ __atomic_load_n(words_of(entry) + i, __ATOMIC_RELAXED);
  return difference == 0;
}

template <class Entry>
slot_contents described_by(const Entry& entry, generation gen) noexcept {
  return {.key = load_key(entry),
          .gen = gen,
          .checksum = __atomic_load_n(&entry.checksum, __ATOMIC_RELAXED),
          .length_bytes = __atomic_load_n(&entry.length_bytes, __ATOMIC_RELAXED)};
}

/// Compares key and length with those of the entry: `hit`, `wrong_key` or `bad_size`.
template <class Entry>
page_status compare(const Entry& entry, const page_key& key, std::uint32_t length_bytes) noexcept {
  if (guard_on(guard::key) && !key_equals(entry, key))
    return page_status::wrong_key;
  if (__atomic_load_n(&entry.length_bytes, __ATOMIC_RELAXED) != length_bytes)
    return page_status::bad_size;
  return page_status::hit;
}

// This bit is set in the generation of a removed page, which is odd as well, until the page's bytes
// are zeroed.
constexpr std::uint64_t to_be_zeroed = std::uint64_t{1} << 63;

/// Makes an odd generation that was stored visible before any later store, streaming stores
/// included, to processes and devices.
void fence_before_overwriting() noexcept {
  std::atomic_thread_fence(memory_order_seq_cst);
  store_fence();
}

} // namespace

slot_table::slot_table(std::span<slot_entry> entries, std::span<client_entry> clients,
                       std::span<std::byte> pages)
    : entries_(entries.data()), clients_(clients.data()), pages_(pages.data()),
      granules_(static_cast<std::uint32_t>(entries.size())) {
  PEERCACHE_ASSERT(entries.size() <= UINT32_MAX && clients.size() == entries.size());
  PEERCACHE_ASSERT(pages.size() / limits::granule_bytes >= entries.size());
}

generation slot_table::begin_fill(slot_id slot, std::uint32_t granules) noexcept {
  PEERCACHE_HOT_ASSERT(slot.value < granules_);
  PEERCACHE_HOT_ASSERT(granules > 0 && granules <= limits::granules_per_page_max);
  auto& word = entries_[slot.value].generation;
  auto before = word.load(memory_order_relaxed);
  PEERCACHE_ASSERT(before == 0 || (before % 2 == 1 && (before & to_be_zeroed) == 0));
  generation filling{before == 0 ? 1 : before + 2};
  clients_[slot.value].filled.store(0, memory_order_relaxed);
  clients_[slot.value].uses.store(0, memory_order_relaxed);
  entries_[slot.value].filling.store(granules, memory_order_relaxed);
  // Readers of the slot's last page need no fence here: they miss since `give_up` or `drop`, which
  // made a fence. The release is for generation 1, which comes again after `refuse_fill`: whoever
  // sees generation 1 also sees that `filled` is 0.
  word.store(filling.value, memory_order_release);
  return filling;
}

generation slot_table::publish(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                               std::uint64_t checksum, generation newer_than) noexcept {
  PEERCACHE_HOT_ASSERT(in_range(slot, length_bytes));
  auto& entry = entries_[slot.value];
  auto filling = entry.generation.load(memory_order_relaxed);
  PEERCACHE_ASSERT(filling % 2 == 1);
  store_page(entry, key, length_bytes, checksum);
  entry.filling.store(0, memory_order_relaxed);
  // Orders the bytes before the generation: this very thread may have put them there with streaming
  // stores, and a device may read them.
  store_fence();
  PEERCACHE_ASSERT(newer_than.value % 2 == 0);
  generation published{std::max(filling + 1, newer_than.value + 2)};
  entry.generation.store(published.value, memory_order_release);
  return published;
}

void slot_table::give_up(slot_id slot, bytes_after after) noexcept {
  PEERCACHE_HOT_ASSERT(slot.value < granules_);
  auto& word = entries_[slot.value].generation;
  generation before{word.load(memory_order_relaxed)};
  PEERCACHE_ASSERT(before.readable());
  word.store((before.value + 1) | (after == bytes_after::zeroed ? to_be_zeroed : 0),
             memory_order_relaxed);
  // The fence stands between the store of the odd generation and the look at the pins: a reader
  // that pinned before it is seen, and a reader that pins after it sees the odd generation.
  fence_before_overwriting();
}

void slot_table::drop(slot_id slot, bytes_after after) noexcept {
  PEERCACHE_HOT_ASSERT(slot.value < granules_);
  auto& entry = entries_[slot.value];
  const auto filling = entry.generation.load(memory_order_relaxed);
  PEERCACHE_ASSERT(filling % 2 == 1);
  if (after == bytes_after::left)
    entry.filling.store(0, memory_order_relaxed);
  if (!guard_on(guard::filled))
    return;
  entry.generation.store(filling + 2, memory_order_relaxed);
  clients_[slot.value].filled.store(0, memory_order_relaxed);
  fence_before_overwriting();
}

bool slot_table::is_complete(slot_id slot, std::uint64_t gen) const noexcept {
  return gen % 2 == 0 ? gen != 0
                      : clients_[slot.value].filled.load(memory_order_acquire) ==
                                static_cast<std::uint32_t>(gen) ||
                            !guard_on(guard::filled);
}

void slot_table::zero(slot_id slot, std::uint64_t offset_bytes, std::uint64_t size_bytes) noexcept {
  const auto at = std::uint64_t{slot.value} * limits::granule_bytes + offset_bytes;
  PEERCACHE_ASSERT(at + size_bytes <= std::uint64_t{granules_} * limits::granule_bytes);
  fence_before_storing();
  std::memset(pages_ + at, 0, size_bytes);
}

void slot_table::note_zeroed(slot_id slot) noexcept {
  auto& word = entries_[slot.value].generation;
  if (const auto now = word.load(memory_order_relaxed); (now & to_be_zeroed) != 0)
    word.store(now & ~to_be_zeroed, memory_order_release);
}

std::uint32_t slot_table::granules_to_zero(slot_id slot) const noexcept {
  const auto& entry = entries_[slot.value];
  const auto word = entry.generation.load(memory_order_relaxed);
  const auto length_bytes = __atomic_load_n(&entry.length_bytes, __ATOMIC_RELAXED);
  const bool removed = word % 2 == 1 && (word & to_be_zeroed) != 0 && in_range(slot, length_bytes);
  return removed ? limits::granules_of(length_bytes) : 0;
}

bool slot_table::was_filled(slot_id slot, const page_key& key, std::uint32_t length_bytes,
                            std::uint64_t checksum) const noexcept {
  if (!guard_on(guard::filled))
    return true;
  const auto& said = clients_[slot.value];
  return is_complete(slot, entries_[slot.value].generation.load(memory_order_relaxed)) &&
         key_equals(said, key) &&
         __atomic_load_n(&said.length_bytes, __ATOMIC_RELAXED) == length_bytes &&
         __atomic_load_n(&said.checksum, __ATOMIC_RELAXED) == checksum;
}

std::optional<generation> slot_table::fill(slot_id slot, const page_key& key,
                                           std::uint32_t length_bytes,
                                           std::uint64_t checksum) noexcept {
  if (!in_range(slot, length_bytes))
    return std::nullopt;
  const generation filling{entries_[slot.value].generation.load(memory_order_acquire)};
  if (filling.value % 2 == 0)
    return std::nullopt;
  auto& own = clients_[slot.value];
  store_page(own, key, length_bytes, checksum);
  own.filled.store(static_cast<std::uint32_t>(filling.value), memory_order_release);
  return filling;
}

std::optional<slot_contents> slot_table::page_in(slot_id slot) const noexcept {
  if (slot.value >= granules_)
    return std::nullopt;
  const generation gen{entries_[slot.value].generation.load(memory_order_acquire)};
  if (!is_complete(slot, gen.value))
    return std::nullopt;
  const auto page = gen.readable() ? described_by(entries_[slot.value], gen)
                                   : described_by(clients_[slot.value], gen);
  if (!still_readable(slot, gen) || !in_range(slot, page.length_bytes))
    return std::nullopt;
  return page;
}

std::uint32_t slot_table::granules_being_filled(slot_id slot) const noexcept {
  const auto& entry = entries_[slot.value];
  const generation now{entry.generation.load(memory_order_relaxed)};
  const auto granules = entry.filling.load(memory_order_relaxed);
  return now.readable() ? 0 : std::min(granules, limits::granules_per_page_max);
}

void slot_table::refuse_fill(slot_id slot) noexcept {
  auto& entry = entries_[slot.value];
  PEERCACHE_ASSERT(!generation{entry.generation.load(memory_order_relaxed)}.readable());
  // From here on `fill` refuses the slot. A `fill` that has read the old generation already may
  // still store `filled`, but no even generation asks for it, and the next `begin_fill` takes it
  // away.
  entry.generation.store(0, memory_order_relaxed);
  clients_[slot.value].filled.store(0, memory_order_relaxed);
  fence_before_overwriting();
}

void slot_table::end_fill(slot_id slot) noexcept {
  if (granules_being_filled(slot) != 0)
    entries_[slot.value].filling.store(0, memory_order_relaxed);
}

void slot_table::clear_pins(slot_id slot) noexcept {
  auto& pins = entries_[slot.value].pins;
  if (pins.load(memory_order_relaxed) != 0)
    pins.store(0, memory_order_relaxed);
}

std::uint32_t slot_table::pins(slot_id slot) const noexcept {
  if (!guard_on(guard::pin))
    return 0;
  return entries_[slot.value].pins.load(memory_order_seq_cst);
}

std::uint32_t slot_table::take_uses(slot_id slot) noexcept {
  auto& uses = clients_[slot.value].uses;
  // The counter of a page that nobody has read is only loaded: without a store its cache line stays
  // shared with other CPUs.
  return uses.load(memory_order_relaxed) == 0 ? 0 : uses.exchange(0, memory_order_relaxed);
}

slot_contents slot_table::contents(slot_id slot) const noexcept {
  PEERCACHE_HOT_ASSERT(slot.value < granules_);
  const auto& entry = entries_[slot.value];
  return described_by(entry, {entry.generation.load(memory_order_relaxed)});
}

bool slot_table::has_key(slot_id slot, const page_key& key) const noexcept {
  return key_equals(entries_[slot.value], key);
}

bool slot_table::in_range(slot_id slot, std::uint32_t length_bytes) const noexcept {
  return slot.value < granules_ && length_bytes <= limits::page_bytes_max &&
         length_bytes <= std::uint64_t{granules_ - slot.value} * limits::granule_bytes;
}

page_status slot_table::check(slot_id slot, generation gen, const page_key& key,
                              std::uint32_t length_bytes) const noexcept {
  if (!in_range(slot, length_bytes))
    return page_status::stale;
  if (!still_readable(slot, gen) || (guard_on(guard::generation) && !is_complete(slot, gen.value)))
    return page_status::stale;
  auto status = gen.readable() ? compare(entries_[slot.value], key, length_bytes)
                               : compare(clients_[slot.value], key, length_bytes);
  // A page that was replaced after the look at the generation is stale, not mislabelled.
  if (status != page_status::hit && !still_readable(slot, gen))
    return page_status::stale;
  return status;
}

bool slot_table::still_readable(slot_id slot, generation gen) const noexcept {
  if (!guard_on(guard::generation))
    return true;
  std::atomic_thread_fence(memory_order_acquire);
  const generation now{entries_[slot.value].generation.load(memory_order_acquire)};
  if (now == gen)
    return true;
  // The generation is odd, from `give_up` or `drop` on, before the bytes are overwritten, and
  // `begin_fill` takes `filled` away before the generation can be even again. So `filled` has to be
  // loaded after the generation.
  return !gen.readable() && now.readable() &&
         clients_[slot.value].filled.load(memory_order_relaxed) ==
             static_cast<std::uint32_t>(gen.value);
}

page_status slot_table::pin_if(slot_id slot, generation gen, const page_key& key,
                               std::uint32_t length_bytes) noexcept {
  if (!in_range(slot, length_bytes))
    return page_status::stale;
  if (!gen.readable() && guard_on(guard::generation))
    return page_status::stale;
  auto& entry = entries_[slot.value];
  entry.pins.fetch_add(1, memory_order_seq_cst);
  auto status = page_status::stale;
  if (entry.generation.load(memory_order_seq_cst) == gen.value || !guard_on(guard::generation))
    status = compare(entry, key, length_bytes);
  if (status != page_status::hit)
    unpin(slot);
  return status;
}

void slot_table::unpin(slot_id slot) noexcept {
  auto before = entries_[slot.value].pins.fetch_sub(1, memory_order_release);
  PEERCACHE_ASSERT(before > 0);
}

void slot_table::count_use(slot_id slot) noexcept {
  PEERCACHE_HOT_ASSERT(slot.value < granules_);
  clients_[slot.value].uses.fetch_add(1, memory_order_relaxed);
}

std::span<std::byte> slot_table::bytes(slot_id slot, std::uint32_t length_bytes) const noexcept {
  PEERCACHE_ASSERT(in_range(slot, length_bytes));
  return {pages_ + std::uint64_t{slot.value} * limits::granule_bytes, length_bytes};
}

std::span<std::byte> slot_table::bytes_to_fill(slot_id slot,
                                               std::uint32_t length_bytes) const noexcept {
  fence_before_storing();
  return bytes(slot, length_bytes);
}

} // namespace peercache::storage
