#include "handoff/lease_table.hpp"

#include "common/assert.hpp"
#include "common/store_fence.hpp"

#include <atomic>
#include <cstring>

namespace peercache::handoff {
namespace {

using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

/// Makes the entry's generation odd and higher: whoever looks at the entry afterwards, in memory or
/// by a READ, finds no lease.
void close(slot_entry& entry) noexcept {
  const auto now = entry.generation.load(memory_order_relaxed);
  if (now % 2 == 0)
    entry.generation.store(now + 1, memory_order_seq_cst);
  std::atomic_thread_fence(memory_order_seq_cst);
  store_fence();
}

/// Stores a key word by word, because other threads may be reading it.
void store_key(slot_entry& entry, const page_key& key) noexcept {
  std::uint64_t words[sizeof(page_key) / sizeof(std::uint64_t)];
  std::memcpy(words, key.bytes.data(), sizeof words);
  auto* to = reinterpret_cast<std::uint64_t*>(entry.key.bytes.data());
  for (auto word : words)
    __atomic_store_n(to++, word, __ATOMIC_RELAXED);
}

} // namespace

page_key lease_key(std::uint64_t room, const incarnation& process, std::uint64_t counter) noexcept {
  const std::uint64_t words[] = {room, process.high, process.low, counter};
  page_key key;
  static_assert(sizeof words == sizeof key.bytes);
  std::memcpy(key.bytes.data(), words, sizeof words);
  return key;
}

lease_table::lease_table(std::span<slot_entry> entries, incarnation process)
    : entries_(entries), process_(process) {
  PEERCACHE_ASSERT(entries.size() < ~std::uint32_t{0});
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    close(entries[i]);
    free_.push_back(i);
  }
}

lease_table::~lease_table() {
  for (auto& entry : entries_)
    close(entry);
}

std::optional<lease> lease_table::take(std::uint64_t room) {
  if (free_.empty())
    return std::nullopt;
  const auto slot = free_.front();
  free_.pop_front();
  auto& entry = entries_[slot];
  const auto odd = entry.generation.load(memory_order_relaxed);
  PEERCACHE_ASSERT(odd % 2 == 1);
  const lease made{{slot}, {odd + 1}, lease_key(room, process_, ++counter_)};
  // Orders the odd generation, which another thread may have stored, before the key's words.
  std::atomic_thread_fence(memory_order_release);
  store_key(entry, made.key);
  __atomic_store_n(&entry.length_bytes, 0u, __ATOMIC_RELAXED);
  __atomic_store_n(&entry.checksum, std::uint64_t{0}, __ATOMIC_RELAXED);
  store_fence(); // Bytes under the lease, too, may have been put there with streaming stores.
  entry.generation.store(made.gen.value, memory_order_release);
  return made;
}

void lease_table::revoke(const lease& ended) noexcept {
  if (!stands(ended))
    return;
  close(entries_[ended.slot.value]);
  free_.push_back(ended.slot.value);
}

bool lease_table::stands(const lease& asked) const noexcept {
  return asked.slot.value < entries_.size() && asked.gen.readable() &&
         entries_[asked.slot.value].generation.load(memory_order_relaxed) == asked.gen.value;
}

} // namespace peercache::handoff
