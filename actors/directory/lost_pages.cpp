#include "actors/directory/lost_pages.hpp"

#include "common/page_status.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <unordered_map>

namespace peercache::actors {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

void lost_pages::note(const page_key& key, page_loss how, time_point now) {
  if (losses_.empty())
    begin_ = now;
  const loss one{key.prefix(),
                 static_cast<std::uint64_t>(duration_cast<milliseconds>(now - begin_).count()),
                 how};
  if (losses_.size() < most_) {
    losses_.push_back(one);
    return;
  }
  losses_[next_] = one;
  next_ = (next_ + 1) % most_;
}

void lost_pages::note(std::string_view keys, page_loss how, time_point now) {
  const auto count = record_count<page_key>(keys).value_or(0);
  for (std::size_t i = 0; i < count; ++i)
    note(record_at<page_key>(keys, i), how, now);
}

void lost_pages::note_removed(std::string_view keys, std::string_view statuses, time_point now) {
  const auto count = std::min(record_count<page_key>(keys).value_or(0), statuses.size());
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<page_status>(statuses[i]) == page_status::hit)
      note(record_at<page_key>(keys, i), page_loss::removed, now);
}

std::uint64_t lost_pages::age_of(const loss& one, time_point now) const {
  const auto age =
      duration_cast<milliseconds>(now - begin_).count() - static_cast<std::int64_t>(one.at_ms);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(age, 0));
}

lost_report lost_pages::find(std::string_view prefixes, time_point now) const {
  lost_report found;
  std::unordered_map<std::uint64_t, std::size_t>
      wanted; // By prefix: how many more losses to return.
  const auto count =
      std::min<std::size_t>(record_count<std::uint64_t>(prefixes).value_or(0), asked_max);
  for (std::size_t i = 0; i < count; ++i)
    wanted.emplace(record_at<std::uint64_t>(prefixes, i), losses_of_page_max);
  for (std::size_t i = losses_.size(); i > 0 && !wanted.empty(); --i) {
    const auto& one = losses_[(next_ + i - 1) % losses_.size()];
    const auto known = wanted.find(one.prefix);
    if (known == wanted.end())
      continue;
    if (--known->second == 0)
      wanted.erase(known);
    auto& page = found.pages.emplace_back();
    page.prefix = one.prefix;
    page.how = static_cast<std::uint8_t>(one.how);
    page.age_ms = age_of(one, now);
  }
  return found;
}

} // namespace peercache::actors
