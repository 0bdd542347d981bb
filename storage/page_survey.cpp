#include "storage/page_survey.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

bool larger(const page_survey::sized_page& a, const page_survey::sized_page& b) {
  return a.bytes > b.bytes;
}

} // namespace

void page_survey::tell_time(time_point now) {
  now_ = now;
  if (window_began_ == time_point{})
    before_began_ = window_began_ = now;
  if (now - window_began_ < window)
    return;
  before_ = std::move(now_read_);
  now_read_ = {};
  before_began_ = std::exchange(window_began_, now);
}

void page_survey::begin_walk() {
  if (!std::exchange(walking_, true))
    return;
  ended_ = std::exchange(open_, {});
  ended_at_ = now_;
}

void page_survey::saw(const page_key& key, std::uint64_t bytes, std::uint64_t reads) {
  if (reads > 0)
    now_read_.add(key, bytes, reads);
  const auto id = space_of(key);
  const bool has_room = open_.spaces.size() < spaces_max || open_.spaces.contains(id.value);
  auto& space = open_.spaces[has_room ? id.value : 0];
  space.space = has_room ? id : space_id{};
  ++space.pages;
  space.bytes += bytes;
  auto& heap = open_.largest;
  if (heap.size() == pages_max) {
    if (bytes <= heap.front().bytes)
      return;
    std::pop_heap(heap.begin(), heap.end(), larger);
    heap.pop_back();
  }
  heap.push_back({key, bytes});
  std::push_heap(heap.begin(), heap.end(), larger);
}

std::vector<heavy_hitters::counter> page_survey::hottest() const {
  std::unordered_map<page_key, heavy_hitters::counter> sum;
  for (const auto* window_of : {&before_, &now_read_})
    for (const auto& one : window_of->counters()) {
      auto& all = sum[one.key];
      all = {one.key, one.bytes, all.reads + one.reads, all.over + one.over};
    }
  std::vector<heavy_hitters::counter> sorted;
  sorted.reserve(sum.size());
  for (const auto& [key, one] : sum)
    sorted.push_back(one);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.reads > b.reads; });
  return sorted;
}

milliseconds page_survey::counted_for() const {
  return duration_cast<milliseconds>(now_ - before_began_);
}

std::vector<page_survey::sized_page> page_survey::largest() const {
  auto sorted = ended_.largest;
  std::sort(sorted.begin(), sorted.end(), larger);
  return sorted;
}

std::vector<page_survey::sized_space> page_survey::spaces() const {
  std::vector<sized_space> sorted;
  sorted.reserve(ended_.spaces.size());
  for (const auto& [id, space] : ended_.spaces)
    sorted.push_back(space);
  std::sort(sorted.begin(), sorted.end(),
            [](const sized_space& a, const sized_space& b) { return a.bytes > b.bytes; });
  return sorted;
}

milliseconds page_survey::age() const {
  return ended_at_ == time_point{} ? milliseconds{} : duration_cast<milliseconds>(now_ - ended_at_);
}

} // namespace peercache::storage
