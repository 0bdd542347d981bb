#include "actors/session_table.hpp"

#include "actors/link_names.hpp"
#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::actors {
namespace {

void add(std::vector<std::uint64_t>& sum, const std::vector<std::uint64_t>& more) {
  sum.resize(std::max(sum.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i)
    sum[i] += more[i];
}

void add(latency_report& sum, const latency_report& more) {
  auto merged = sum.snapshot();
  merged.merge(more.snapshot());
  sum = latency_report{merged};
}

void add(rail_report& sum, const rail_report& more) {
  sum.reads += more.reads;
  sum.bytes += more.bytes;
  sum.entry_reads += more.entry_reads;
  sum.bounced_bytes += more.bounced_bytes;
  sum.channels += more.channels;
  for (const auto& [status, count] : more.errors)
    sum.errors[status] += count;
}

void add(rdma_peer_report& sum, const rdma_peer_report& more) {
  sum.reads += more.reads;
  sum.bytes += more.bytes;
  sum.errors += more.errors;
}

template <class Report>
void add(std::map<std::string, Report>& sum, const std::map<std::string, Report>& more) {
  for (const auto& [name, report] : more)
    add(sum[name], report);
}

void add(client_report& sum, const client_report& more) {
  add(sum.get_status, more.get_status);
  add(sum.set_status, more.set_status);
  add(sum.exists_status, more.exists_status);
  add(sum.get_hits, more.get_hits);
  add(sum.get_bytes, more.get_bytes);
  add(sum.get_latency, more.get_latency);
  add(sum.set_latency, more.set_latency);
  add(sum.exists_latency, more.exists_latency);
  add(sum.rails, more.rails);
  add(sum.rdma_peers, more.rdma_peers);
  sum.set_bytes += more.set_bytes;
  sum.view_refreshes += more.view_refreshes;
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
        return each.second.slots.contains(slot.value); // Two sessions would fill it at once.
      }));
      const bool is_new = to.slots.insert(slot.value).second;
      PEERCACHE_ASSERT(is_new); // The pool lends each slot to one session at a time.
    }
}

bool session_table::returned(session& from, slot_id slot) {
  return from.slots.erase(slot.value) == 1;
}

void session_table::went_silent(const caf::actor_addr& events) {
  for (auto& [id, known] : sessions_)
    if (known.events.address() == events)
      known.silent = true;
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
  add(ended_, found->second.totals);
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

client_report session_table::totals() const {
  auto sum = ended_;
  sum.breakers_open = 0;
  for (auto& [name, rail] : sum.rails)
    rail.channels = 0; // No channel of an ended session is open.
  for (const auto& [id, known] : sessions_) {
    add(sum, known.totals);
    sum.breakers_open += known.totals.breakers_open;
  }
  return sum;
}

} // namespace peercache::actors
