#include "actors/shared_shard.hpp"

#include "directory/wire.hpp"

namespace peercache::actors {

shared_shard::shared_shard(const directory::member_shard::options& options,
                           std::uint64_t records_max)
    : shard_(options) {
  shard_.records().set_locations_max(records_max);
}

std::unique_lock<std::mutex> shared_shard::wait_for_lock() {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock taken(mutex_);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return taken;
}

shared_shard::locked shared_shard::lock() {
  return {wait_for_lock(), shard_};
}

result<std::string> shared_shard::look_up(std::string_view keys) {
  const auto lock = wait_for_lock();
  return look_up_locked(keys);
}

std::optional<result<std::string>> shared_shard::try_look_up(std::string_view keys) {
  if (waiting_.load(std::memory_order_relaxed) != 0)
    return std::nullopt;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || ended_)
    return std::nullopt;
  return look_up_locked(keys);
}

shared_shard::counts shared_shard::counted() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void shared_shard::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

result<std::string> shared_shard::look_up_locked(std::string_view keys) {
  counts_.lookups += keys.size() / directory::wire::key_bytes;
  return shard_.look_up(keys, counts_.foreign);
}

} // namespace peercache::actors
