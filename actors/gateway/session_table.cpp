#include "actors/gateway/session_table.hpp"

#include "actors/link_names.hpp"
#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::actors {
namespace {

/// The metrics without the reasons of failures. Workers word these reasons themselves, so the
/// reasons of ended workers would pile up.
metrics::samples without_reasons(const metrics::samples& all) {
  metrics::samples others;
  for (const auto& [which, value] : all.values())
    if (which.id != metrics::metric::handoff_last_failure_seconds)
      others.set(which, value);
  for (const auto& [which, latency] : all.latencies())
    others.set(which, latency);
  return others;
}

} // namespace

std::optional<std::uint64_t> session_table::open(std::string client_name, session_listener events,
                                                 const lock_held& held) {
  std::uint32_t lock_index = 0;
  while (lock_index < sessions_max &&
         (locks_in_use_.contains(lock_index) || (held && held(lock_index))))
    ++lock_index;
  if (lock_index >= sessions_max)
    return std::nullopt;
  locks_in_use_.insert(lock_index);
  // Each session has a lock of its own.
  PEERCACHE_ASSERT(locks_in_use_.size() == sessions_.size() + 1);
  auto id = incarnation::random().low;
  while (id == 0 || sessions_.contains(id))
    id = incarnation::random().low;
  auto& opened = sessions_[id];
  opened.client_name = std::move(client_name);
  opened.events = std::move(events);
  opened.lock_index = lock_index;
  return id;
}

session_table::session* session_table::find(std::uint64_t id) noexcept {
  auto found = sessions_.find(id);
  return found != sessions_.end() ? &found->second : nullptr;
}

void session_table::granted(session& to, std::string_view slots) {
  auto count = record_count<slot_id>(slots);
  PEERCACHE_ASSERT(count.has_value());
  for (std::size_t i = 0; i < *count; ++i)
    if (auto slot = record_at<slot_id>(slots, i); slot != no_slot) {
      PEERCACHE_HOT_ASSERT(std::none_of(sessions_.begin(), sessions_.end(), [&](const auto& each) {
        return each.second.slots.contains(slot.value); // Two sessions would fill one slot at once.
      }));
      const bool is_new = to.slots.insert(slot.value).second;
      PEERCACHE_ASSERT(is_new); // The pool lends each slot to one session at a time.
    }
}

bool session_table::returned(session& from, slot_id slot) {
  return from.slots.erase(slot.value) == 1;
}

bool session_table::report(session& from, metrics::samples totals) {
  PEERCACHE_ASSERT(series_ >= from.totals.size());
  const auto others = series_ - from.totals.size();
  if (others + totals.size() > series_max)
    return false;
  series_ = others + totals.size();
  from.totals = std::move(totals);
  return true;
}

std::vector<std::uint64_t> session_table::went_silent(const caf::actor_addr& events) {
  std::vector<std::uint64_t> ids;
  for (auto& [id, known] : sessions_)
    if (known.events.address() == events) {
      known.silent = true;
      ids.push_back(id);
    }
  return ids;
}

std::string session_table::close(std::uint64_t id) {
  std::string slots;
  auto found = sessions_.find(id);
  if (found == sessions_.end())
    return slots;
  for (auto slot : found->second.slots)
    append_record(slots, slot_id{slot});
  const auto freed = locks_in_use_.erase(found->second.lock_index);
  PEERCACHE_ASSERT(freed == 1);
  series_ -= found->second.totals.size();
  ended_.add(without_reasons(found->second.totals));
  ended_.zero_gauges();
  sessions_.erase(found);
  return slots;
}

std::vector<std::uint64_t> session_table::silent() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, known] : sessions_)
    if (known.silent)
      ids.push_back(id);
  return ids;
}

sessions_report session_table::list() const {
  sessions_report said;
  for (const auto& [id, known] : sessions_) {
    auto& row = said.rows.emplace_back();
    row.client = known.client_name;
    row.opened_ms = known.opened_ms;
    row.silent = known.silent;
    row.slots = static_cast<std::uint32_t>(known.slots.size());
    row.totals = known.totals;
  }
  return said;
}

metrics::samples session_table::totals() const {
  auto sum = ended_;
  for (const auto& [id, known] : sessions_)
    sum.add(known.totals);
  return sum;
}

} // namespace peercache::actors
