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

/// Whether a span began there.
bool erase(std::vector<std::span<const std::byte>>& spans, const std::byte* begin) {
  return std::erase_if(spans, [begin](const auto& one) { return one.data() == begin; }) != 0;
}

} // namespace

result<void> served_spans::add(std::span<const std::byte> memory) {
  if (memory.empty())
    return {errc::invalid_argument, "there is nothing to serve: the memory is empty"};
  const auto hold = wait_until_unread();
  const auto at = span_behind(spans_, memory.data());
  if (at != spans_.end() && at->data() < memory.data() + memory.size())
    return {errc::refused, "this memory, or a part of it, is served already"};
  if (spans_.size() >= spans_max)
    return {errc::refused, "too many pieces of memory are served; serve fewer and larger ones"};
  spans_.insert(at, memory);
  return {};
}

bool served_spans::remove(const std::byte* begin) {
  const auto hold = wait_until_unread();
  return erase(spans_, begin);
}

bool served_spans::remove_unless_read(const std::byte* begin) {
  const std::lock_guard hold(mutex_);
  if (is_read())
    return false;
  erase(spans_, begin);
  return true;
}

/// Whether a server may be reading a span. @pre the mutex is held
bool served_spans::is_read() const noexcept {
  // Tests switch this guard off: then a span is removed while a server is reading it.
  return readings_ != 0 && guard_on(guard::pin);
}

/// Waits until no server reads a span. Returns a lock of the mutex, which keeps all of them from
/// beginning.
std::unique_lock<std::mutex> served_spans::wait_until_unread() {
  std::unique_lock hold(mutex_);
  ++changes_waiting_;
  changed_.wait(hold, [this] { return !is_read(); });
  if (--changes_waiting_ == 0)
    changed_.notify_all();
  return hold;
}

served_spans::reading served_spans::read() const {
  std::unique_lock hold(mutex_);
  changed_.wait(hold, [this] { return changes_waiting_ == 0; });
  ++readings_;
  return reading(*this);
}

served_spans::reading& served_spans::reading::operator=(reading&& from) noexcept {
  if (this != &from) {
    end();
    of_ = std::exchange(from.of_, nullptr);
  }
  return *this;
}

void served_spans::reading::end() noexcept {
  if (of_ == nullptr)
    return;
  const std::lock_guard hold(of_->mutex_);
  if (--of_->readings_ == 0 && of_->changes_waiting_ != 0)
    of_->changed_.notify_all();
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
