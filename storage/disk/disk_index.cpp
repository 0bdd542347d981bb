#include "storage/disk/disk_index.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::storage {

const disk_index::entry* disk_index::find(const page_key& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &*found->second;
}

std::optional<disk_index::entry> disk_index::insert(const entry& made) {
  auto before = erase(made.page.key);
  order_.push_back(made);
  order_.back().number = ++numbers_;
  walk_order_.push_back({numbers_, &order_.back()});
  entries_.emplace(made.page.key, std::prev(order_.end()));
  page_bytes_ += made.page.length_bytes;
  return before;
}

std::optional<disk_index::entry> disk_index::insert_by_sequence(const entry& made) {
  auto before = insert(made);
  const auto its = std::prev(order_.end());
  auto place = its;
  while (place != order_.begin() && std::prev(place)->sequence > made.sequence)
    --place;
  order_.splice(place, order_, its);
  return before;
}

std::optional<disk_index::entry> disk_index::erase(const page_key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end())
    return std::nullopt;
  auto gone = *found->second;
  leave_walk(gone.number);
  order_.erase(found->second);
  entries_.erase(found);
  page_bytes_ -= gone.page.length_bytes;
  return gone;
}

void disk_index::touch(const page_key& key) {
  const auto found = entries_.find(key);
  PEERCACHE_ASSERT(found != entries_.end());
  order_.splice(order_.end(), order_, found->second);
}

void disk_index::leave_walk(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(walk_order_, number, {}, &numbered::number);
  PEERCACHE_ASSERT(found != walk_order_.end() && found->number == number);
  found->page = nullptr;
  if (++walk_gaps_ <= walk_order_.size() / 2)
    return;
  std::erase_if(walk_order_, [](const numbered& each) { return each.page == nullptr; });
  walk_gaps_ = 0;
}

std::uint64_t disk_index::walk(std::uint64_t after, std::uint32_t count,
                               const std::function<void(const disk_page&)>& visit) const {
  std::uint64_t last = 0;
  auto at = std::ranges::upper_bound(walk_order_, after, {}, &numbered::number);
  for (; count != 0 && at != walk_order_.end(); ++at) {
    if (at->page == nullptr)
      continue;
    visit(at->page->page);
    last = at->number;
    --count;
  }
  return last;
}

} // namespace peercache::storage
