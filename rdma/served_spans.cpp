#include "rdma/served_spans.hpp"

#include "common/guards.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

namespace peercache::rdma {

namespace {

/// Reads the entry's key word by word, because the lease's owner may be writing a new key
/// meanwhile: a torn key is then a mismatch.
page_key key_now(const slot_entry& entry) noexcept {
  using word = std::uint64_t __attribute__((may_alias));
  std::array<std::uint64_t, sizeof(page_key) / sizeof(word)> words;
  const auto* from = reinterpret_cast<const word*>(entry.key.bytes.data());
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
  return std::bit_cast<page_key>(words);
}

/// The first of `spans` that ends behind the address `begin`.
auto span_behind(const std::vector<std::span<const std::byte>>& spans,
                 const std::byte* begin) noexcept {
  return std::partition_point(spans.begin(), spans.end(), [begin](const auto& one) {
    return one.data() + one.size() <= begin;
  });
}

} // namespace

result<void> served_spans::add(std::span<const std::byte> memory) {
  if (memory.empty())
    return {errc::invalid_argument, "there is nothing to serve: the memory is empty"};
  const std::unique_lock hold(mutex_);
  const auto at = span_behind(spans_, memory.data());
  if (at != spans_.end() && at->data() < memory.data() + memory.size())
    return {errc::refused, "this memory, or a part of it, is served already"};
  if (spans_.size() >= spans_max)
    return {errc::refused, "too many pieces of memory are served; serve fewer and larger ones"};
  spans_.insert(at, memory);
  return {};
}

bool served_spans::remove(const std::byte* begin) {
  const std::unique_lock hold(mutex_);
  return std::erase_if(spans_, [begin](const auto& one) { return one.data() == begin; }) != 0;
}

page_status served_spans::judge(slot_id lease, generation gen, const page_key& key) const noexcept {
  if (lease.value >= leases_.size())
    return page_status::stale;
  const auto& entry = leases_[lease.value];
  const auto key_then = key_now(entry);
  // Behind this fence the generation is no older than any byte that was read before it.
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool open = gen.readable() && entry.generation.load(std::memory_order_acquire) == gen.value;
  if (!open && guard_on(guard::generation))
    return page_status::stale;
  return key_then == key || !guard_on(guard::key) ? page_status::hit : page_status::wrong_key;
}

bool served_spans::reading::covers(const memory_rows& rows) const noexcept {
  const auto* begin = rows.begin_of(0);
  const auto found = span_behind(of_->spans_, begin);
  return found != of_->spans_.end() && found->data() <= begin &&
         rows.extent_bytes() <= found->size() - static_cast<std::size_t>(begin - found->data());
}

} // namespace peercache::rdma
