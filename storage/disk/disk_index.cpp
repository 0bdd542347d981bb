#include "storage/disk/disk_index.hpp"

#include "common/assert.hpp"

namespace peercache::storage {

const disk_index::entry* disk_index::find(const page_key& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &*found->second;
}

std::optional<disk_index::entry> disk_index::insert(const entry& made) {
  auto before = erase(made.page.key);
  order_.push_back(made);
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

std::optional<page_key> disk_index::walk(const std::optional<page_key>& after, std::uint32_t count,
                                         const std::function<void(const disk_page&)>& visit) const {
  auto at = order_.begin();
  if (after) {
    const auto found = entries_.find(*after);
    if (found != entries_.end())
      at = std::next(found->second);
  }
  std::optional<page_key> last;
  for (; count != 0 && at != order_.end(); --count, ++at) {
    visit(at->page);
    last = at->page.key;
  }
  return last;
}

} // namespace peercache::storage
