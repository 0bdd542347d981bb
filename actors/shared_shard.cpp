#include "actors/shared_shard.hpp"

#include "directory/wire.hpp"

namespace peercache::actors {

shared_shard::shared_shard(const directory::member_shard::options& options,
                           std::uint64_t records_max)
    : shard_(options) {
  shard_.records().set_locations_max(records_max);
}

shared_shard::locked shared_shard::lock() {
  return {std::unique_lock(mutex_), shard_};
}

result<std::string> shared_shard::look_up(std::string_view keys) {
  const std::lock_guard lock(mutex_);
  return look_up_locked(keys);
}

std::optional<result<std::string>> shared_shard::try_look_up(std::string_view keys) {
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
