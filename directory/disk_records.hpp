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

/// Records of pages that are on disk only and that some directory owner has not heard of yet. One
/// chunk of them is on its way at a time.
///
/// Threads: none; the owner serializes. Bound: `records_max`. A record that finds no room sets
/// `missed`; its page is found by nobody until the whole disk is published again.
class disk_records {
public:
  explicit disk_records(std::size_t records_max) : records_max_(records_max) {}

  void add(const publish_record& record) {
    if (waiting_.size() < records_max_)
      waiting_.push_back(record);
    else
      missed_ = true;
  }
  /// Drops the records for which `is_gone` returns true: a dropped record is neither sent nor sent
  /// again.
  template <class Predicate>
  void drop_if(Predicate&& is_gone) {
    PEERCACHE_ASSERT(sent_dropped_.size() == sent_.size());
    std::erase_if(waiting_, is_gone);
    for (std::size_t i = 0; i < sent_.size(); ++i)
      sent_dropped_[i] = sent_dropped_[i] || is_gone(sent_[i]);
  }

  bool empty() const noexcept { return waiting_.empty(); }
  bool on_way() const noexcept { return !sent_.empty(); }
  /// Whether more than half of `records_max` is taken: a caller with many more records should wait.
  bool crowded() const noexcept { return waiting_.size() > records_max_ / 2; }
  bool missed() const noexcept { return missed_; }
  void begin_again() noexcept { missed_ = false; }

  /// Takes up to `count_max` waiting records for the caller to send; they are on their way until
  /// `settle`. @pre no records are on their way
  const std::vector<publish_record>& take(std::size_t count_max) {
    PEERCACHE_ASSERT(!on_way());
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(count_max, waiting_.size()));
    sent_.assign(waiting_.begin(), end);
    sent_dropped_.assign(sent_.size(), false);
    waiting_.erase(waiting_.begin(), end);
    return sent_;
  }
  /// Ends the chunk of records that is on its way: `said` has the owners' answers. Returns false
  /// when some owner has not heard of all records: the caller then tries again later, not at once.
  /// Records for an unreachable owner take at most a quarter of `records_max`.
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
    sent_dropped_.clear();
    return all_heard;
  }

private:
  std::size_t records_max_;
  std::deque<publish_record> waiting_;
  std::vector<publish_record> sent_;
  /// For each record of `sent_`: whether `drop_if` has dropped the record.
  std::vector<bool> sent_dropped_;
  bool missed_ = false;
};

} // namespace peercache::directory
