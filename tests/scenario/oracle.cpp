#include "tests/scenario/oracle.hpp"

#include "discovery/quorum.hpp"
#include "discovery/survey.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace peercache::scenario {
namespace {

using discovery::duration;
using discovery::time_point;
using namespace std::chrono_literals;

/// The expiry of every process, as in cluster.hpp.
constexpr duration silent_after = 2s;
/// How long a node must have heard no majority of masters before it may make a fragment. The time
/// is 1.5 s shorter than the nodes' own, because a node's clock may be fast, and may jump a few
/// times by up to two heartbeats without the node's noticing.
constexpr duration unheard = discovery::survey::waits * silent_after - 1500ms;
constexpr duration answers_kept = 10s;
/// Five quarters of a heartbeat, by the slowest clock of a host.
constexpr duration answer_age_max = 650ms;

constexpr std::uint64_t odd_factor = 0x9e3779b97f4a7c15ull;

std::uint64_t word_at(std::uint64_t put, std::size_t position) {
  return put + position * odd_factor;
}

std::string named(const discovery::view_stamp& stamp) {
  return std::to_string(stamp.term) + "." + std::to_string(stamp.version);
}

} // namespace

std::uint64_t oracle::put(const page_key& key) {
  keys_.push_back(key);
  return keys_.size();
}

void oracle::offers(const incarnation& holder, std::uint64_t put) {
  offered_[holder].insert(put);
}

void oracle::write(std::span<std::byte> bytes, std::uint64_t put) {
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    auto word = word_at(put, i);
    std::memcpy(bytes.data() + 8 * i, &word, 8);
  }
}

void oracle::judge_hit(const page_key& key, const incarnation& holder,
                       std::span<const std::byte> bytes) {
  std::uint64_t put = 0;
  std::memcpy(&put, bytes.data(), 8);
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    auto expected = word_at(put, i);
    if (std::memcmp(bytes.data() + 8 * i, &expected, 8) != 0)
      return fault("wrong bytes: a page of two fillings");
  }
  if (put == 0 || put > keys_.size())
    return fault("wrong bytes: nobody put them");
  if (keys_[put - 1] != key)
    return fault("wrong bytes: those of another key");
  if (offered_[holder].count(put) == 0)
    return fault("wrong bytes: of another process than the record names");
}

void oracle::judge_view(const discovery::view& adopted, const discovery::view_stamp& before,
                        time_point now) {
  if (adopted.stamp() <= before)
    fault("view " + named(adopted.stamp()) + " came after " + named(before));
  auto hash = std::hash<std::string>{}(discovery::encode_view(adopted));
  if (views_.emplace(adopted.stamp(), hash).first->second != hash)
    fault("two views are called " + named(adopted.stamp()));
  note_decided(adopted, now);
}

void oracle::lives_in(const incarnation& process, const discovery::view_stamp& stamp) {
  lives_[process].view = stamp;
}

void oracle::was_greeted(const incarnation& process, const incarnation& of, time_point now) {
  lives_[process].greeted[of] = now;
}

void oracle::was_answered(const incarnation& process, const incarnation& by, time_point now) {
  auto& answers = lives_[process].answers;
  answers.emplace_back(now, by);
  while (answers.front().first < now - answers_kept)
    answers.pop_front();
}

void oracle::has_ended(const incarnation& process) {
  ended_.insert(process);
  lives_.erase(process);
}

std::set<discovery::view_stamp> oracle::proposed_after(const discovery::view_stamp& base) const {
  std::set<discovery::view_stamp> proposed;
  for (const auto& [value, after] : bases_)
    if (after == base)
      proposed.insert(value);
  return proposed;
}

std::optional<std::vector<incarnation>>
oracle::masters_decided(const discovery::view_stamp& base,
                        const std::set<discovery::view_stamp>& among) const {
  const auto next = decided_.find(base);
  if (next == decided_.end() || among.count(next->second) == 0)
    return std::nullopt;
  return masters_.at(next->second);
}

void oracle::judge_packet(const discovery::packet& sent, time_point now) {
  if (const auto* proposed = std::get_if<discovery::propose_packet>(&sent)) {
    bases_.emplace(proposed->value.stamp(), proposed->base);
    attempts_[{proposed->base, proposed->attempt}].value = proposed->value.stamp();
  } else if (const auto* vote = std::get_if<discovery::vote_packet>(&sent)) {
    if (vote->step == discovery::voting_step::propose &&
        vote->answer == discovery::verdict::granted)
      attempts_[{vote->base, vote->attempt}].voters.insert(vote->voter);
  } else if (const auto* told = std::get_if<discovery::view_packet>(&sent)) {
    note_decided(told->latest, now);
  } else if (const auto* beat = std::get_if<discovery::heartbeat_packet>(&sent);
             beat != nullptr && beat->heard) {
    auto& greeted = lives_[beat->inc].greeted;
    const auto last = greeted.find(*beat->heard);
    if (last == greeted.end() || now - last->second > answer_age_max)
      fault("a heartbeat answers one that did not come, or long ago");
  }
  // A view that is told as a difference is noted when its issuer adopts it: whoever tells it so
  // goes on in it.
}

/// Notes a view as decided when it is first announced, because no view is announced before it is
/// decided.
void oracle::note_decided(const discovery::view& one, time_point now) {
  auto [its, fresh] = masters_.try_emplace(one.stamp());
  for (const auto& name : one.masters)
    if (fresh)
      its->second.push_back(one.find_name(name)->inc);
  if (one.masters.size() < 3 && !one.fragment())
    few_masters_ = std::max(few_masters_, one.stamp());
  const auto base = bases_.find(one.stamp());
  if (base == bases_.end()) {
    if (fresh)
      judge_unvoted(one, now);
    return;
  }
  if (fresh && !has_votes(one.stamp(), base->second))
    fault("view " + named(one.stamp()) + " came after " + named(base->second) +
          " without a majority");
  if (base->second < few_masters_)
    return;
  const auto first = decided_.emplace(base->second, one.stamp()).first->second;
  if (first != one.stamp() && majority_runs(base->second))
    fault("two views after " + named(base->second) + ": " + named(first) + " and " +
          named(one.stamp()));
}

/// Judges a view that was adopted without a proposal. Such a view is legal if its issuer was never
/// in a view, is one of at most two masters, or was cut off from a majority and marks the view as a
/// fragment.
void oracle::judge_unvoted(const discovery::view& one, time_point now) {
  const auto issuer = lives_.find(one.issuer);
  if (issuer == lives_.end() || issuer->second.view.term == 0)
    return;
  const auto base = masters_.find(issuer->second.view);
  if (base == masters_.end())
    return;
  const auto& masters = base->second;
  const bool decides = std::find(masters.begin(), masters.end(), one.issuer) != masters.end() &&
                       discovery::votes_needed(masters.size()) == 1;
  if (decides)
    return;
  if (!one.fragment() && discovery::votes_needed(masters.size()) > 1)
    fault("view " + named(one.stamp()) + " came after " + named(base->first) +
          " without a majority: nobody was asked");
  if (one.fragment() && heard_majority(one.issuer, masters, now))
    fault("fragment " + named(one.stamp()) + " came after " + named(base->first) +
          " though a majority answered");
}

/// Whether, at some moment of the time that `process` had to wait before making a fragment, a
/// majority of the masters had answered it within one expiry.
bool oracle::heard_majority(const incarnation& process, const std::vector<incarnation>& masters,
                            time_point now) const {
  const auto& its = lives_.at(process);
  const auto is_master = [&](const incarnation& inc) {
    return std::find(masters.begin(), masters.end(), inc) != masters.end();
  };
  for (const auto& [until, last] : its.answers) {
    if (until < now - unheard)
      continue;
    std::set<incarnation> heard;
    if (is_master(process))
      heard.insert(process);
    for (const auto& [at, by] : its.answers)
      if (at <= until && at >= until - silent_after && is_master(by))
        heard.insert(by);
    if (heard.size() >= discovery::votes_needed(masters.size()))
      return true;
  }
  return false;
}

/// Whether the view `one`, proposed after `base`, has the votes of a majority. Votes count from
/// when they are sent. The proposer counts as one voter, whether it has a vote or not.
bool oracle::has_votes(const discovery::view_stamp& one, const discovery::view_stamp& base) const {
  const auto masters = masters_.find(base);
  if (masters == masters_.end())
    return true;
  const auto needed = discovery::votes_needed(masters->second.size());
  return std::any_of(attempts_.begin(), attempts_.end(), [&](const auto& entry) {
    return entry.first.first == base && entry.second.value == one &&
           entry.second.voters.size() + 1 >= needed;
  });
}

/// Whether a majority of the masters of the view `base` still runs. Without a majority, later
/// processes on their hosts may decide by what is still known.
bool oracle::majority_runs(const discovery::view_stamp& base) const {
  const auto its = masters_.find(base);
  if (its == masters_.end())
    return false;
  const auto running = std::count_if(its->second.begin(), its->second.end(),
                                     [this](const auto& inc) { return ended_.count(inc) == 0; });
  return static_cast<std::size_t>(running) >= discovery::votes_needed(its->second.size());
}

void oracle::fault(std::string what) {
  if (faults_.size() < 8)
    faults_.push_back(std::move(what));
}

} // namespace peercache::scenario
