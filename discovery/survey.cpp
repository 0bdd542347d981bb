#include "discovery/survey.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

namespace {

/// How many nodes a survey asks with its first heartbeat.
constexpr std::size_t first_asked = 8;

} // namespace

survey::survey(std::vector<member> order, const incarnation& self, duration heartbeat,
               duration expiry, time_point now)
    : order_(std::move(order)), heartbeat_(heartbeat), expiry_(expiry), asked_at_(now),
      since_(now) {
  const auto own = std::find_if(order_.begin(), order_.end(),
                                [&self](const member& m) { return m.inc == self; });
  PEERCACHE_ASSERT(own != order_.end());
  rank_ = static_cast<std::size_t>(own - order_.begin());
  for (const auto& m : order_)
    // `operator[]` makes an empty entry. Answers of processes without an entry do not count.
    answers_[m.inc];
}

void survey::heard(const incarnation& who, bool in_touch, time_point now) {
  if (auto at = answers_.find(who); at != answers_.end())
    at->second = {now, in_touch};
}

std::vector<endpoint> survey::to_ask(time_point now) {
  std::size_t first = 0;
  std::size_t end = order_.size();
  if (!gathering_since_) {
    if (auto living = first_living(now)) {
      first = *living;
      end = first + 1;
    } else {
      first = asked_;
      end = asked_ = std::min(rank_, std::max(first_asked, 2 * asked_));
      if (first < end)
        asked_at_ = now;
    }
  }
  std::vector<endpoint> targets;
  for (auto i = first; i < end; ++i)
    if (i != rank_)
      targets.push_back(control_endpoint(order_[i]));
  return targets;
}

std::vector<member> survey::survivors(time_point now) {
  if (somebody_in_touch(now))
    since_ = now;
  if (now - since_ < waits * expiry_ || !is_first(now)) {
    gathering_since_.reset();
    return {};
  }
  if (!gathering_since_)
    gathering_since_ = now;
  if (now - *gathering_since_ < gathers * heartbeat_)
    return {};
  std::vector<member> left;
  for (std::size_t i = 0; i < order_.size(); ++i)
    if (i == rank_ || answers_.at(order_[i].inc).at >= *gathering_since_)
      left.push_back(order_[i]);
  return left;
}

bool survey::lives(std::size_t index, time_point now) const {
  const auto& said = answers_.at(order_[index].inc);
  return said.at != time_point{} && now - said.at <= expiry_;
}

/// Index of the first node placed before this one that answers; nothing when none does.
std::optional<std::size_t> survey::first_living(time_point now) const {
  for (std::size_t i = 0; i < rank_; ++i)
    if (lives(i, now))
      return i;
  return std::nullopt;
}

bool survey::somebody_in_touch(time_point now) const {
  for (std::size_t i = 0; i < order_.size(); ++i)
    if (i != rank_ && lives(i, now) && answers_.at(order_[i].inc).in_touch)
      return true;
  return false;
}

bool survey::is_first(time_point now) const {
  return asked_ == rank_ && now - asked_at_ >= heartbeat_ && !first_living(now);
}

} // namespace peercache::discovery
