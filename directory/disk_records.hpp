#pragma once

#include "common/assert.hpp"
#include "directory/publication.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace peercache::directory {

/// Records of pages that are on disk only, of which some directory owner has not heard yet. One
/// chunk of them is on its way at a time.
///
/// Threads: none; the owner serializes. Bound: `records_max`; what finds no room is `missed`, and
/// nobody finds its page before all of the disk is published again.
class disk_records {
public:
  explicit disk_records(std::size_t records_max) : records_max_(records_max) {}

  void add(const publish_record& record) {
    if (waiting_.size() < records_max_)
      waiting_.push_back(record);
    else
      missed_ = true;
  }
  /// Records for which this is true are not to be told, or not to be told again.
  template <class Predicate>
  void drop_if(Predicate&& is_gone) {
    std::erase_if(waiting_, is_gone);
    for (std::size_t i = 0; i < sent_.size(); ++i)
      sent_dropped_[i] = sent_dropped_[i] || is_gone(sent_[i]);
  }

  bool empty() const noexcept { return waiting_.empty(); }
  bool on_way() const noexcept { return !sent_.empty(); }
  /// More waits than half of what has room: whoever has many more to add should wait.
  bool crowded() const noexcept { return waiting_.size() > records_max_ / 2; }
  bool missed() const noexcept { return missed_; }
  void begin_again() noexcept { missed_ = false; }

  /// The next records, which are on their way until `settle`. @pre none are
  const std::vector<publish_record>& take(std::size_t count_max) {
    PEERCACHE_ASSERT(!on_way());
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(count_max, waiting_.size()));
    sent_.assign(waiting_.begin(), end);
    sent_dropped_.assign(sent_.size(), false);
    waiting_.erase(waiting_.begin(), end);
    return sent_;
  }
  /// What the owners said of them. False: some owner has not heard of all, so that they are to be
  /// tried later, not at once. Records for an owner out of reach leave room for others.
  bool settle(const publication& said) {
    PEERCACHE_ASSERT(on_way() && said.unheard.size() == sent_.size());
    bool all_heard = true;
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (!said.unheard[i] || sent_dropped_[i])
        continue;
      all_heard = false;
      if (waiting_.size() < records_max_ / 4)
        waiting_.push_back(sent_[i]);
      else
        missed_ = true;
    }
    sent_.clear();
    return all_heard;
  }

private:
  std::size_t records_max_;
  std::deque<publish_record> waiting_;
  std::vector<publish_record> sent_;
  std::vector<bool> sent_dropped_; ///< Of each of `sent_`: its page is gone.
  bool missed_ = false;
};

} // namespace peercache::directory
