#include "client/notes/hold_releases.hpp"

#include "common/limits.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::client {

void hold_releases::add(const incarnation& holder, slot_id slot, generation gen) {
  std::lock_guard guard{lock_};
  if (records_ == records_max)
    return;
  ++records_;
  auto found = std::find_if(open_.begin(), open_.end(),
                            [&](const of_holder& each) { return each.first == holder; });
  if (found == open_.end())
    found = open_.insert(open_.end(), {holder, {}});
  link::append_record(found->second, link::used_page{.gen = gen, .slot = slot});
  if (found->second.size() < limits::batch_pages_max * sizeof(link::used_page))
    return;
  full_.push_back(std::move(*found));
  open_.erase(found);
}

std::vector<hold_releases::of_holder> hold_releases::take() {
  std::lock_guard guard{lock_};
  records_ = 0;
  auto all = std::exchange(full_, {});
  for (auto& message : open_)
    all.push_back(std::move(message));
  open_.clear();
  return all;
}

std::vector<std::string> hold_releases::take_of(const incarnation& holder) {
  std::vector<std::string> taken;
  std::lock_guard guard{lock_};
  for (auto* messages : {&full_, &open_}) {
    for (auto& [whose, pages] : *messages)
      if (whose == holder) {
        records_ -= pages.size() / sizeof(link::used_page);
        taken.push_back(std::move(pages));
      }
    std::erase_if(*messages, [&](const of_holder& each) { return each.first == holder; });
  }
  return taken;
}

void hold_clock::held_until(time_point end) noexcept {
  const auto until = end.time_since_epoch().count();
  auto before = end_.load(std::memory_order_relaxed);
  while (before < until && !end_.compare_exchange_weak(before, until, std::memory_order_relaxed)) {
  }
}

} // namespace peercache::client
