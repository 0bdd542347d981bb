#include "tests/scenario/world.hpp"

#include <algorithm>

namespace peercache::scenario {

using std::chrono::microseconds;

/// Returns a random number below `limit`, by splitmix64.
std::uint64_t world::below(std::uint64_t limit) noexcept {
  state_ += 0x9e3779b97f4a7c15ull;
  auto z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (z ^ (z >> 31)) % limit;
}

void world::at(time_point when, task what) {
  queue_.push_back({std::max(when, now_), numbers_++, std::move(what)});
  std::push_heap(queue_.begin(), queue_.end(), later);
}

bool world::step(time_point until) {
  if (queue_.empty() || queue_.front().when > until) {
    now_ = std::max(now_, until);
    return false;
  }
  std::pop_heap(queue_.begin(), queue_.end(), later);
  auto next = std::move(queue_.back());
  queue_.pop_back();
  now_ = next.when;
  ++events_;
  note(static_cast<std::uint64_t>(now_.time_since_epoch().count()) + next.number);
  next.what();
  return true;
}

void world::resize(std::size_t hosts) {
  auto old = std::move(cuts_);
  cuts_.assign(hosts * hosts, false);
  for (std::size_t from = 0; from < hosts_; ++from)
    for (std::size_t to = 0; to < hosts_; ++to)
      cuts_[from * hosts + to] = old[from * hosts_ + to];
  hosts_ = hosts;
  slowness.resize(hosts);
}

std::optional<duration> world::way(std::size_t from, std::size_t to) {
  if (!open(from, to) || below(100) < loss_percent)
    return std::nullopt;
  if (from == to)
    return microseconds(20);
  if (!overtaking)
    return microseconds(500);
  // Most messages are fast; one in sixteen takes long enough to be overtaken by many others.
  auto spread = below(16) == 0 ? 20'000 : 1'000;
  return microseconds(100 + below(static_cast<std::uint64_t>(spread))) + slowness[from];
}

void world::mend() {
  cuts_.assign(cuts_.size(), false);
}

} // namespace peercache::scenario
