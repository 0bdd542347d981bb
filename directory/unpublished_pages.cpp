#include "directory/unpublished_pages.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace peercache::directory {

void unpublished_pages::add(const page& next) {
  PEERCACHE_ASSERT(!next.missed || next.only != all_owners); // One owner has missed it.
  auto& pages = queues_[next.only].pages;
  if (next.missed)
    pages.push_front(next);
  else
    pages.push_back(next);
}

void unpublished_pages::clear() {
  std::erase_if(queues_, [](const auto& entry) { return !entry.second.on_way; });
  for (auto& [owner, waiting] : queues_)
    waiting.pages.clear();
}

void unpublished_pages::forget_moved(const discovery::hash_ring& ring, std::uint32_t replicas) {
  for (auto& [owner, waiting] : queues_)
    if (owner != all_owners)
      std::erase_if(waiting.pages, [&ring, replicas, to = owner](const page& next) {
        return !ring.owns(to, next.key, replicas);
      });
  std::erase_if(queues_, [](const auto& entry) {
    return entry.second.pages.empty() && !entry.second.on_way;
  });
}

std::size_t unpublished_pages::size() const noexcept {
  std::size_t pages = 0;
  for (const auto& [owner, waiting] : queues_)
    pages += waiting.pages.size();
  return pages;
}

bool unpublished_pages::idle() const noexcept {
  return std::all_of(queues_.begin(), queues_.end(), [](const auto& entry) {
    return entry.second.pages.empty() && !entry.second.on_way;
  });
}

std::vector<node_id> unpublished_pages::ready() const {
  std::vector<node_id> owners;
  for (const auto& [owner, waiting] : queues_)
    if (!waiting.on_way && !waiting.pages.empty())
      owners.push_back(owner);
  return owners;
}

void unpublished_pages::tidy(node_id queue, const locate& where) {
  auto& waiting = queues_[queue];
  if (waiting.pages.size() < waiting.tidy_at)
    return;
  std::unordered_set<page_key> seen;
  std::erase_if(waiting.pages, [&](const page& next) {
    return !where(next.key) || !seen.insert(next.key).second;
  });
  // A look at the whole queue comes after as many new pages as it has now, so that each page is
  // looked at a few times.
  waiting.tidy_at = std::max(chunk_pages, 2 * waiting.pages.size());
}

unpublished_pages::chunk unpublished_pages::take(node_id queue, std::size_t chunk_max,
                                                 std::size_t count_max,
                                                 const discovery::hash_ring& ring,
                                                 std::uint32_t replicas, const locate& where) {
  auto& pages = queues_[queue].pages;
  auto& on_way = queues_[queue].on_way;
  PEERCACHE_ASSERT(!on_way);
  const bool to_one = queue != all_owners;
  chunk taken;
  owner_batches batches{ring, replicas};
  while (!pages.empty() && taken.pages.size() < std::min(chunk_pages, chunk_max) &&
         (pages.front().missed || taken.counted < count_max)) {
    auto next = pages.front();
    pages.pop_front();
    const auto location = where(next.key);
    if (!location || (to_one && !ring.owns(queue, next.key, replicas)))
      continue;
    const publish_record record{next.key, *location, publish_mode::always};
    const auto index = static_cast<std::uint32_t>(taken.pages.size());
    if (to_one)
      batches.add_to(queue, index, record);
    else
      batches.add(index, record);
    next.gen = location->gen;
    taken.counted += next.missed ? 0 : 1;
    taken.pages.push_back(next);
  }
  PEERCACHE_ASSERT(taken.pages.size() <= chunk_pages);
  on_way = !taken.pages.empty();
  taken.batches = batches.take();
  return taken;
}

unpublished_pages::outcome unpublished_pages::settle(node_id queue, const std::vector<page>& sent,
                                                     const publication& said) {
  using sequel = publication::sequel;
  PEERCACHE_ASSERT(sent.size() == said.unheard.size());
  const bool was_on_way = std::exchange(queues_[queue].on_way, false);
  PEERCACHE_ASSERT(was_on_way); // Each chunk that was taken is settled once.
  outcome after;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto next = said.after_repeat(i, queue == all_owners);
    if (next == sequel::again)
      add(sent[i]);
    else if (next == sequel::tell_all)
      add({sent[i].key});
    else if (next == sequel::drop)
      after.useless.push_back(sent[i]);
    after.all_heard = after.all_heard && !said.unheard[i];
  }
  return after;
}

} // namespace peercache::directory
