#include "actors/directory/shared_shard.hpp"

#include "common/assert.hpp"
#include "directory/shard_batch.hpp"

namespace peercache::actors {

shared_shard::shared_shard(const directory::member_shard::options& options)
    : shard_(options), answering_(shard_.answers_by()) {}

result<std::string> shared_shard::look_up(std::string_view keys) {
  std::uint64_t foreign = 0;
  const std::lock_guard lock(mutex_);
  auto answer = shard_.look_up(keys, foreign);
  count(keys, foreign);
  return answer;
}

std::optional<result<std::string>> shared_shard::try_look_up(std::string_view keys) {
  if (ended_.load(std::memory_order_acquire))
    return std::nullopt;
  std::uint64_t foreign = 0;
  const auto by = answering_.load();
  auto answer = directory::lookup_batch(shard_.records().reader(), keys, by->ownership(), foreign);
  if (answer)
    count(keys, foreign);
  return answer;
}

void shared_shard::heard() noexcept {
  const auto before = announced_.fetch_sub(1, std::memory_order_acq_rel);
  PEERCACHE_ASSERT(before > 0); // Whoever tells the actor such a thing announces it.
}

/// Takes the lock if nobody has it, the shard's actor lives, and no announced message waits there.
bool shared_shard::take_lock() {
  return !ended_.load(std::memory_order_acquire) &&
         announced_.load(std::memory_order_acquire) == 0 && mutex_.try_lock();
}

std::optional<result<std::string>> shared_shard::try_publish(std::string_view batch,
                                                             const directory::view_number& known) {
  if (!take_lock())
    return std::nullopt;
  const locked own(*this, std::adopt_lock);
  if (!own->publishes_at_once(batch, known))
    return std::nullopt;
  published_.fetch_add(batch.size() / directory::wire::publish_record_bytes,
                       std::memory_order_relaxed);
  return own->publish(batch, known);
}

std::optional<result<std::uint64_t>> shared_shard::try_withdraw(std::string_view batch) {
  if (!take_lock())
    return std::nullopt;
  const locked own(*this, std::adopt_lock);
  if (own->gives())
    return std::nullopt;
  withdrawn_.fetch_add(batch.size() / directory::wire::withdraw_record_bytes,
                       std::memory_order_relaxed);
  return directory::withdraw_batch(own->records(), batch);
}

shared_shard::counts shared_shard::counted() const noexcept {
  return {lookups_.load(std::memory_order_relaxed), foreign_.load(std::memory_order_relaxed),
          published_.load(std::memory_order_relaxed), withdrawn_.load(std::memory_order_relaxed)};
}

void shared_shard::count(std::string_view keys, std::uint64_t foreign) noexcept {
  lookups_.fetch_add(keys.size() / directory::wire::key_bytes, std::memory_order_relaxed);
  foreign_.fetch_add(foreign, std::memory_order_relaxed);
}

/// Gives look-ups the view that the shard follows now. @pre the lock is held
void shared_shard::tell_readers() {
  shard_.tell_remote_readers();
  auto now = shard_.answers_by();
  if (!(now == *answering_.load()))
    answering_.store(std::move(now));
}

} // namespace peercache::actors
