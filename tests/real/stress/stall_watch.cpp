#include "stall_watch.hpp"

#include <algorithm>

namespace peercache::stress {

stall_watch::stall_watch()
    : thread_([this] {
        for (auto last = clock::now(); !stop_;) {
          std::this_thread::sleep_for(beat);
          auto now = clock::now();
          if (now - last > shortest) {
            std::lock_guard guard(lock_);
            stalls_.emplace_back(last, now);
          }
          last = now;
        }
      }) {}

stall_watch::~stall_watch() {
  stop_ = true;
  thread_.join();
}

stall_watch::clock::duration stall_watch::stood_still(clock::time_point begin,
                                                      clock::time_point end) const {
  std::this_thread::sleep_for(2 * shortest);
  std::lock_guard guard(lock_);
  clock::duration sum{};
  for (const auto& [from, to] : stalls_)
    sum += std::max(clock::duration{}, std::min(to, end) - std::max(from, begin));
  return sum;
}

std::vector<std::pair<stall_watch::clock::time_point, stall_watch::clock::time_point>>
stall_watch::all() const {
  std::lock_guard guard(lock_);
  return stalls_;
}

stall_watch::clock::duration stall_watch::longest() const {
  std::lock_guard guard(lock_);
  clock::duration most{};
  for (const auto& [from, to] : stalls_)
    most = std::max(most, to - from);
  return most;
}

} // namespace peercache::stress
