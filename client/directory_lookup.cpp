#include "client/directory_lookup.hpp"

#include "directory/wire.hpp"

#include <algorithm>
#include <array>
#include <poll.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t replicas_asked = 2;
/// Keys of one frame: a large question is answered in parts while the rest is still on its way.
constexpr std::size_t frame_bytes = 128 * directory::wire::key_bytes;
/// How long after a change of view producers may still be publishing to its new owners.
constexpr auto view_grace = 3s;

/// How long the first owner may take before the next replica is asked.
milliseconds patience(milliseconds left) {
  return std::clamp(left / 4, 20ms, 250ms);
}

} // namespace

directory_lookup::directory_lookup(session& with, lookup_channels& channels, peer_health& health,
                                   counters& totals)
    : channels_(channels), health_(health), counters_(totals), cluster_(with.board().topology()),
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

bool directory_lookup::advance(share& asked, std::span<lookup_answer> answers) {
  using state = rdma::frame_channel::state;
  auto now = asked.channel->advance();
  if (now == state::asking)
    return true;
  if (now == state::answered) {
    take(asked, asked.channel->answer(), answers);
    channels_.give_back(asked.owner->self.inc, std::move(asked.channel));
  } else {
    failed(asked, page_status::unreachable, answers);
  }
  asked.channel.reset();
  return false;
}

void directory_lookup::ask(std::span<lookup_answer> answers, deadline until) {
  std::vector<pollfd> waiting;
  std::vector<share*> asked;
  for (auto& to : shares_) {
    to.channel = channels_.lease(*to.owner);
    if (!to.channel) {
      failed(to, page_status::unreachable, answers);
      continue;
    }
    to.channel->ask(to.request, frame_bytes);
    counters_.directory_messages.fetch_add(1, std::memory_order_relaxed);
    if (advance(to, answers))
      asked.push_back(&to);
  }
  while (!asked.empty()) {
    auto left = duration_cast<milliseconds>(until - steady_clock::now());
    if (left <= 0ms)
      break;
    waiting.clear();
    for (auto* to : asked)
      waiting.push_back({to->channel->fd(), to->channel->events(), 0});
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) <= 0)
      continue; // The deadline decides.
    std::erase_if(asked, [&](share* to) {
      auto at = static_cast<std::size_t>(
          std::find_if(waiting.begin(), waiting.end(),
                       [&](const pollfd& w) { return w.fd == to->channel->fd(); }) -
          waiting.begin());
      return waiting[at].revents != 0 && !advance(*to, answers);
    });
  }
  for (auto* to : asked) {
    failed(*to, page_status::timed_out, answers);
    to->channel.reset(); // A late answer must not meet the next question.
  }
}

void directory_lookup::run(std::span<const page_key> keys, std::span<lookup_answer> answers,
                           deadline until) {
  channels_.follow(cluster_->view);
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
    ask(answers, round + 1 < replicas_asked ? steady_clock::now() + patience(left) : until);
  }
  for (auto& answer : answers)
    if (answer.status == page_status::pending)
      answer.status = answer.reason;
}

} // namespace peercache::client
