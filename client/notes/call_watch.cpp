#include "client/notes/call_watch.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

template <class Unit>
std::uint64_t whole(call_watch::duration some) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(duration_cast<Unit>(some).count(), 0));
}

bool is_slower(const call_watch::call& a, const call_watch::call& b) {
  return a.took > b.took;
}

} // namespace

call_watch::cell* call_watch::cell_of(space_id space) noexcept {
  for (auto& one : cells_) {
    auto has = one.space.load(std::memory_order_relaxed);
    if (has == 0 && one.space.compare_exchange_strong(has, space.value, std::memory_order_relaxed))
      return &one;
    if (has == space.value)
      return &one;
  }
  return nullptr;
}

void call_watch::count(link::call_kind kind, const page_key& first, std::size_t pages) noexcept {
  auto* cell = cell_of(space_of(first));
  if (cell == nullptr)
    return;
  cell->pages[static_cast<std::size_t>(kind)].fetch_add(pages, std::memory_order_relaxed);
  if (!counted_.load(std::memory_order_relaxed))
    counted_.store(true, std::memory_order_relaxed);
}

void call_watch::set_floor() {
  const auto fastest =
      std::min_element(slow_.begin(), slow_.end(),
                       [](const kept& a, const kept& b) { return a.what.took < b.what.took; });
  const bool full = slow_.size() == slow_max;
  floor_.store(full ? fastest->what.took.count() : 0, std::memory_order_relaxed);
}

void call_watch::forget_old(time_point now) {
  const milliseconds window{link::calls_window_ms};
  std::erase_if(slow_, [&](const kept& one) { return now - one.at > window; });
  set_floor();
}

void call_watch::keep(call slow, time_point now) {
  std::lock_guard guard{lock_};
  forget_old(now);
  if (slow_.size() == slow_max) {
    if (!is_slow(slow.took)) // Other threads have kept slower calls since the caller asked.
      return;
    slow_.erase(std::min_element(slow_.begin(), slow_.end(), [](const kept& a, const kept& b) {
      return a.what.took < b.what.took;
    }));
  }
  slow_.push_back({std::move(slow), now});
  set_floor();
}

void call_watch::set_data_plane(std::string words) {
  std::lock_guard guard{lock_};
  data_plane_ = std::move(words);
}

bool call_watch::take(link::call_report& into, time_point now) {
  const bool counted = counted_.exchange(false, std::memory_order_relaxed);
  for (const auto& one : cells_) {
    const auto space = one.space.load(std::memory_order_relaxed);
    if (space == 0)
      break;
    auto& use = into.uses.emplace_back();
    use.space = space;
    for (const auto& pages : one.pages)
      use.pages.push_back(pages.load(std::memory_order_relaxed));
  }
  std::lock_guard guard{lock_};
  into.data_plane = data_plane_;
  forget_old(now);
  std::sort(slow_.begin(), slow_.end(),
            [](const kept& a, const kept& b) { return is_slower(a.what, b.what); });
  for (const auto& [what, at] : slow_) {
    auto& row = into.slow.emplace_back();
    row.call = static_cast<std::uint8_t>(what.kind);
    row.waited_for = static_cast<std::uint8_t>(what.wait.what);
    row.pages = static_cast<std::uint32_t>(what.pages);
    row.failed = static_cast<std::uint32_t>(what.failed);
    row.age_ms = whole<milliseconds>(now - at);
    row.took_us = whole<microseconds>(what.took);
    row.waited_us = whole<microseconds>(what.wait.lasted);
    row.peer = what.wait.whom;
    row.digest.assign(reinterpret_cast<const char*>(what.first.bytes.data()),
                      what.first.bytes.size());
  }
  return counted;
}

} // namespace peercache::client
