#include "client/directory_lookup.hpp"

#include "directory/wire.hpp"

#include <algorithm>
#include <array>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t replicas_asked = 2;
/// How long after a change of view producers may still be publishing to its new owners.
constexpr auto view_grace = 3s;

/// How long the first owner may take before the next replica is asked.
milliseconds patience(milliseconds left) {
  return std::clamp(left / 4, 20ms, 250ms);
}

} // namespace

directory_lookup::directory_lookup(session& with, peer_health& health, counters& totals)
    : session_(with), health_(health), counters_(totals), cluster_(with.board().topology()),
      own_(with.board().pool()),
      view_is_young_(steady_clock::now() - cluster_->adopted_at < view_grace) {}

directory_lookup::share& directory_lookup::share_of(const actors::peer& owner) {
  for (auto& known : shares_)
    if (known.owner == &owner && known.indices.size() < limits::batch_pages_max)
      return known;
  shares_.emplace_back().owner = &owner;
  return shares_.back();
}

bool directory_lookup::usable(const actors::peer& owner) {
  if (!owner.linked() || std::find(given_up_.begin(), given_up_.end(), &owner) != given_up_.end())
    return false;
  auto chosen_before = std::any_of(shares_.begin(), shares_.end(),
                                   [&](const share& s) { return s.owner == &owner; });
  if (chosen_before || health_.allow(owner.self.inc, steady_clock::now()))
    return true;
  given_up_.push_back(&owner);
  return false;
}

const actors::peer* directory_lookup::choose_owner(const page_key& key, lookup_answer& answer) {
  std::array<node_id, replicas_asked> owners;
  auto count = cluster_->ring.owners(key, owners);
  auto candidates = std::span{owners}.first(count);
  // The own host's shard costs no network, whichever replica it is.
  if (auto own =
          own_ ? std::find(candidates.begin(), candidates.end(), own_->node.id) : candidates.end();
      own != candidates.end())
    std::swap(*own, candidates.front());
  for (auto id : candidates) {
    const auto* owner = cluster_->find(id);
    if (id == answer.asked)
      continue;
    if (owner != nullptr && usable(*owner))
      return owner;
    if (owner != nullptr && owner->linked() && answer.reason == page_status::unreachable)
      answer.reason = page_status::breaker_open;
  }
  return nullptr;
}

void directory_lookup::distribute(std::span<const page_key> keys,
                                  std::span<lookup_answer> answers) {
  shares_.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (answers[i].status != page_status::pending)
      continue;
    const auto* owner = choose_owner(keys[i], answers[i]);
    if (owner == nullptr)
      continue;
    answers[i].asked = owner->self.id;
    auto& target = share_of(*owner);
    directory::append_lookup(target.request, keys[i]);
    target.indices.push_back(static_cast<std::uint32_t>(i));
  }
}

void directory_lookup::take(const share& asked, const std::string& answer,
                            std::span<lookup_answer> answers) {
  directory::answer_reader reader{answer};
  for (auto index : asked.indices) {
    auto& out = answers[index];
    std::size_t count = 0;
    if (!reader.next(out.locations, count)) {
      failed(asked, page_status::unreachable, answers);
      return;
    }
    // Never believe a record whose owner is not in the view.
    auto end = std::remove_if(out.locations.begin(),
                              out.locations.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](const auto& l) { return cluster_->find(l.owner) == nullptr; });
    out.count = static_cast<std::uint8_t>(end - out.locations.begin());
    out.reason = page_status::not_found;
    if (out.count > 0 || !view_is_young_)
      out.status = out.count > 0 ? page_status::hit : page_status::not_found;
  }
  health_.on_success(asked.owner->self.inc);
}

void directory_lookup::failed(const share& asked, page_status reason,
                              std::span<lookup_answer> answers) {
  given_up_.push_back(asked.owner);
  health_.on_failure(asked.owner->self.inc, steady_clock::now());
  for (auto index : asked.indices)
    if (answers[index].status == page_status::pending)
      answers[index].reason = reason;
}

void directory_lookup::ask(std::span<lookup_answer> answers, milliseconds timeout) {
  session::caller self{session_};
  auto send = [&](share& to) {
    return (*self)->request(to.owner->directory, timeout, actors::lookup_atom_v,
                            std::move(to.request));
  };
  std::vector<decltype(send(shares_.front()))> pending;
  pending.reserve(shares_.size());
  for (auto& to : shares_)
    pending.push_back(send(to));
  counters_.directory_messages.fetch_add(pending.size(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < pending.size(); ++i)
    pending[i].receive([&](const std::string& answer) { take(shares_[i], answer, answers); },
                       [&](const caf::error& why) {
                         auto late = why == caf::sec::request_timeout;
                         failed(shares_[i],
                                late ? page_status::timed_out : page_status::unreachable, answers);
                         self.spoil();
                       });
}

void directory_lookup::run(std::span<const page_key> keys, std::span<lookup_answer> answers,
                           deadline until) {
  for (auto& answer : answers) {
    answer.status = page_status::pending;
    answer.reason = page_status::unreachable;
    answer.asked = {};
    answer.count = 0;
  }
  for (std::size_t round = 0; round < replicas_asked; ++round) {
    auto left = duration_cast<milliseconds>(until - steady_clock::now());
    distribute(keys, answers);
    if (shares_.empty() || left < 1ms)
      break;
    ask(answers, round + 1 < replicas_asked ? std::min(left, patience(left)) : left);
  }
  for (auto& answer : answers)
    if (answer.status == page_status::pending)
      answer.status = answer.reason;
}

} // namespace peercache::client
