#include "storage/disk/record_table.hpp"

#include "common/assert.hpp"

namespace peercache::storage {

std::optional<record_table::entry> record_table::insert(const entry& made) {
  auto replaced = index_.insert_by_sequence(made);
  if (replaced)
    release(*replaced);
  return replaced;
}

std::optional<record_table::entry> record_table::erase(const page_key& key) {
  auto gone = index_.erase(key);
  if (gone)
    release(*gone);
  return gone;
}

void record_table::release(const entry& gone) {
  const auto pinned = pins_.find(gone.sequence);
  if (pinned == pins_.end())
    released_.push_back(gone);
  else
    pinned->second.waits = gone;
}

void record_table::unpin(std::uint64_t sequence) {
  const auto pinned = pins_.find(sequence);
  PEERCACHE_ASSERT(pinned != pins_.end() && pinned->second.count != 0);
  if (--pinned->second.count != 0)
    return;
  if (pinned->second.waits)
    released_.push_back(*pinned->second.waits);
  pins_.erase(pinned);
}

disk_eviction record_table::begin_eviction(const std::function<bool()>& enough,
                                           const std::function<void(const entry&)>& goes) {
  disk_eviction chosen;
  std::vector<entry> gone;
  while (!index_.empty() && !enough()) {
    const page_key key = index_.oldest().page.key;
    gone.push_back(*index_.erase(key));
    chosen.pages.push_back(gone.back().page);
    goes(gone.back());
  }
  if (!gone.empty()) {
    chosen.ticket = ++last_ticket_;
    leaving_.emplace(chosen.ticket, std::move(gone));
  }
  return chosen;
}

void record_table::finish_eviction(std::uint64_t ticket) {
  const auto found = leaving_.find(ticket);
  if (found == leaving_.end())
    return;
  for (const auto& gone : found->second)
    release(gone);
  leaving_.erase(found);
}

} // namespace peercache::storage
