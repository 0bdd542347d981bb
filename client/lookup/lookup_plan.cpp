#include "client/lookup/lookup_plan.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr std::size_t replicas_asked = lookup_answer::asked_max - 2;
/// With this many open keys per node all nodes are asked anyway. Then the ring's order spreads the
/// keys better than an order that prefers owners of many keys.
constexpr std::size_t keys_for_each_owner = 8;

bool contains(std::span<const node_id> ids, node_id wanted) noexcept {
  return std::find(ids.begin(), ids.end(), wanted) != ids.end();
}

std::span<const node_id> asked_of(const lookup_answer& answer) noexcept {
  return std::span(answer.asked).first(answer.asked_count);
}

} // namespace

lookup_plan::lookup_plan(std::span<const page_key> keys, std::span<lookup_answer> answers)
    : keys_(keys), answers_(answers), open_(keys.size()) {
  PEERCACHE_ASSERT(keys.size() == answers.size());
  for (auto& answer : answers_) {
    answer.status = page_status::pending;
    answer.reason = page_status::unreachable;
    answer.asked_count = 0;
    answer.count = 0;
    answer.not_mine = false;
    answer.waits = false;
  }
}

owners_known owners_known::by(const discovery::view& view, const discovery::hash_ring& ring,
                              std::vector<const discovery::hash_ring*> before) {
  owners_known known;
  known.view = {view.term, view.version};
  known.now = &ring;
  known.before = std::move(before);
  known.is_member = [&view](const directory::page_location& at) {
    return view.find(at.node, at.holder) != nullptr;
  };
  return known;
}

nanoseconds lookup_plan::patience_for_view(nanoseconds left) {
  return std::min(left, std::clamp<nanoseconds>(left / 4, 20ms, 250ms));
}

void lookup_plan::follow(owners_known known) {
  PEERCACHE_ASSERT(known.now != nullptr);
  known_ = std::move(known);
}

std::size_t lookup_plan::owners_today(const page_key& key, std::span<node_id> out) const {
  auto replicas = std::min<std::size_t>(known_.replicas, replicas_asked);
  return known_.now->owners(key, out.first(replicas));
}

void lookup_plan::count_open_keys() {
  open_keys_.clear();
  // A single key costs one message, whoever is asked.
  saves_messages_ = open_ > 1 && open_ < keys_for_each_owner * known_.now->members();
  if (!saves_messages_)
    return;
  owners_.resize(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (answers_[i].status != page_status::pending)
      continue;
    auto& owners = owners_[i];
    owners.count = owners_today(keys_[i], owners.ids);
    for (auto id : std::span(owners.ids).first(owners.count))
      open_keys_[id] += 1;
  }
}

/// Ranks an owner: how many open keys a message to it settles. This host's node is best, for it
/// costs no message.
std::size_t lookup_plan::messages_saved_by(node_id owner) const {
  if (owner == known_.own)
    return SIZE_MAX;
  const auto open = open_keys_.find(owner);
  return open == open_keys_.end() ? 0 : open->second;
}

/// Returns the owners to ask for a key, best first. Current owners come before former ones; when
/// the choice can save messages, current owners of many open keys come first.
std::size_t lookup_plan::candidates(std::uint32_t index, std::span<node_id> out) const {
  const auto& key = keys_[index];
  std::size_t count = 0;
  if (saves_messages_) {
    count = owners_[index].count;
    std::copy_n(owners_[index].ids.begin(), count, out.begin());
  } else {
    count = owners_today(key, out);
  }
  std::array<std::size_t, replicas_asked> saved; // Messages that each owner in `out` saves.
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = out[i];
    const auto saves = messages_saved_by(id);
    auto at = i; // Insertion: `std::stable_sort` would take memory for these few.
    for (; at > 0 && saved[at - 1] < saves; --at) {
      saved[at] = saved[at - 1];
      out[at] = out[at - 1];
    }
    saved[at] = saves;
    out[at] = id;
  }
  std::array<node_id, replicas_asked> former;
  for (const auto* ring : known_.before) {
    auto formers = ring->owners(
        key, std::span(former).first(std::min<std::size_t>(known_.replicas, replicas_asked)));
    for (std::size_t i = 0; i < formers && count < out.size(); ++i)
      if (!contains(out.first(count), former[i]))
        out[count++] = former[i];
  }
  return count;
}

lookup_plan::use lookup_plan::verdict_on(node_id owner, const usable& may_ask) {
  auto& known = verdicts_[owner.value % verdicts_.size()];
  if (known.owner != owner || owner == node_id{})
    known = {owner, may_ask(owner)};
  return known.may_ask;
}

bool lookup_plan::choose(std::uint32_t index, const usable& may_ask, node_id& chosen) {
  auto& answer = answers_[index];
  if (answer.asked_count == lookup_answer::asked_max)
    return false;
  std::array<node_id, lookup_answer::asked_max> ids;
  auto count = candidates(index, ids);
  bool found = false;
  for (auto id : std::span(ids).first(count)) {
    if (contains(asked_of(answer), id))
      continue;
    switch (verdict_on(id, may_ask)) {
    case use::yes:
      chosen = id;
      return true;
    case use::unwillingly:
      if (!std::exchange(found, true))
        chosen = id;
      break;
    case use::left_alone:
      if (answer.reason == page_status::unreachable)
        answer.reason = page_status::breaker_open;
      break;
    case use::no_link:
      break;
    }
  }
  return found;
}

std::vector<lookup_plan::share> lookup_plan::next_round(const usable& may_ask) {
  std::vector<share> shares;
  if (open_ == 0)
    return shares;
  verdicts_ = {};
  count_open_keys();
  for (std::uint32_t i = 0; i < keys_.size(); ++i) {
    auto& answer = answers_[i];
    node_id owner;
    if (answer.status != page_status::pending || answer.waits || !choose(i, may_ask, owner))
      continue;
    auto target = std::find_if(shares.begin(), shares.end(), [&](const share& s) {
      return s.owner == owner && s.indices.size() < limits::batch_pages_max;
    });
    if (target == shares.end()) {
      target = shares.emplace(shares.end());
      target->owner = owner;
      if (saves_messages_)
        open_keys_[owner] += keys_.size(); // An owner that is asked anyway comes before all others.
    }
    PEERCACHE_ASSERT(answer.asked_count < lookup_answer::asked_max);
    answer.asked[answer.asked_count++] = owner;
    directory::append_lookup(target->request, keys_[i]);
    target->indices.push_back(i);
    answer.waits = true;
  }
  return shares;
}

void lookup_plan::let_go(const share& asked) {
  if (!asked.overdue)
    for (auto index : asked.indices)
      answers_[index].waits = false;
}

void lookup_plan::set_overdue(share& asked) {
  PEERCACHE_ASSERT(!asked.overdue);
  let_go(asked);
  asked.overdue = true;
}

lookup_plan::worth lookup_plan::worth_of(const share& asked) const {
  auto most = worth::nothing;
  for (auto index : asked.indices) {
    const auto& answer = answers_[index];
    if (answer.status != page_status::pending)
      continue;
    if (answer.reason != page_status::not_found)
      return worth::only_answer;
    most = worth::another_opinion;
  }
  return most;
}

void lookup_plan::take(std::uint32_t index, std::size_t count, bool not_mine) {
  auto& out = answers_[index];
  PEERCACHE_ASSERT(out.status == page_status::pending && count <= out.locations.size());
  // Never believe a record whose holder is not in the view.
  auto end = std::remove_if(out.locations.begin(),
                            out.locations.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](const auto& l) { return !known_.is_member(l); });
  out.count = static_cast<std::uint8_t>(end - out.locations.begin());
  out.not_mine = out.not_mine || not_mine;
  if (!not_mine)
    out.reason = page_status::not_found;
  if (out.count > 0) {
    out.status = page_status::hit;
    --open_;
  }
}

bool lookup_plan::answered(const share& asked, std::string_view answer) {
  directory::answer_reader reader{answer};
  decltype(lookup_answer::locations) unwanted;
  let_go(asked);
  for (auto index : asked.indices) {
    std::size_t count = 0;
    const bool open = answers_[index].status == page_status::pending;
    if (!reader.next(open ? answers_[index].locations : unwanted, count)) {
      failed(asked, page_status::unreachable);
      return false;
    }
    if (open)
      take(index, count, reader.not_mine());
    if (reader.not_mine() && reader.view() > newer_) {
      newer_ = reader.view();
      newer_from_ = asked.owner;
    }
  }
  return true;
}

void lookup_plan::failed(const share& asked, page_status reason) {
  let_go(asked);
  for (auto index : asked.indices) {
    auto& answer = answers_[index];
    if (answer.status == page_status::pending && answer.reason != page_status::not_found)
      answer.reason = reason;
  }
}

void lookup_plan::finish(bool in_time) {
  PEERCACHE_HOT_ASSERT(static_cast<std::size_t>(std::ranges::count(
                           answers_, page_status::pending, &lookup_answer::status)) == open_);
  if (open_ == 0)
    return;
  for (auto& answer : answers_) {
    if (answer.status != page_status::pending)
      continue;
    if (!in_time && answer.asked_count == 0)
      answer.status = page_status::timed_out;
    else
      answer.status = answer.not_mine && answer.reason == page_status::unreachable
                          ? page_status::not_found
                          : answer.reason;
  }
  open_ = 0;
}

} // namespace peercache::client
