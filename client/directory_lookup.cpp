#include "client/directory_lookup.hpp"

#include "common/assert.hpp"
#include "common/interruption.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <poll.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Bytes of keys in one frame: a large question is sent in frames, so that its first part is
/// answered while the rest is still on its way.
constexpr std::size_t frame_bytes = 128 * directory::wire::key_bytes;

milliseconds left_until(deadline until) {
  return std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
}

} // namespace

directory_lookup::directory_lookup(session& with, lookup_channels& channels, peer_health& health,
                                   counters& totals)
    : session_(with), channels_(channels), health_(health), course_(health), counters_(totals),
      own_(with.board().pool()) {}

void directory_lookup::follow(lookup_plan& plan) {
  cluster_ = session_.board().topology();
  channels_.follow(cluster_->view);
  health_.follow(cluster_->view);
  owners_known known;
  known.view = {cluster_->view.term, cluster_->view.version};
  known.now = &cluster_->ring;
  known.before = cluster_->past.asked_at(steady_clock::now());
  if (own_) {
    known.own = own_->node.id;
    known.replicas = own_->directory_replicas;
  }
  known.is_member = [cluster = cluster_](const incarnation& inc) {
    return cluster->find(inc) != nullptr;
  };
  plan.follow(std::move(known));
}

void directory_lookup::refresh(lookup_plan& plan, deadline until) {
  counters_.view_refreshes.fetch_add(1, std::memory_order_relaxed);
  const auto* informed = cluster_->find(plan.newer_from());
  if (informed != nullptr)
    session_.refresh_view(informed->gateway, plan.newer(),
                          steady_clock::now() + lookup_plan::patience_for_view(left_until(until)));
  follow(plan);
}

void directory_lookup::failed(question& asked, page_status reason) {
  course_.failed(*asked.share, asked.owner->self.inc, reason, steady_clock::now());
  asked.channel.reset(); // A late answer must not be taken for the answer to the next question.
}

void directory_lookup::advance(question& asked) {
  using state = net::frame_channel::state;
  PEERCACHE_ASSERT(asked.channel != nullptr);
  const auto now = asked.channel->advance();
  const auto& owner = asked.owner->self.inc;
  if (now == state::asking)
    return;
  if (now == state::broken)
    return failed(asked, page_status::unreachable);
  if (course_.answered(*asked.share, owner, asked.channel->answer(), steady_clock::now()))
    channels_.give_back(owner, std::move(asked.channel));
  else
    asked.channel.reset();
}

void directory_lookup::wait(std::span<question> asked) {
  std::vector<pollfd> waiting;
  auto until = deadline::max();
  for (const auto& to : asked)
    if (to.channel) {
      waiting.push_back({to.channel->fd(), to.channel->events(), 0});
      until = std::min(until, to.until);
    }
  // Rounded up: a wait that ended just before the look was due would end again and again.
  const auto look =
      std::chrono::ceil<milliseconds>(interruption::next_look(until) - steady_clock::now());
  auto left = std::max(std::min(left_until(until), look), 0ms);
  waiting.push_back({session_.closing().file(), POLLIN, 0});
  ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
  auto next = waiting.begin();
  for (auto& to : asked)
    to.ready = to.channel && (next++)->revents != 0;
}

void directory_lookup::ask(const std::vector<lookup_plan::share>& shares, deadline until) {
  const auto now = steady_clock::now();
  const auto left = left_until(until);
  std::vector<question> asked;
  asked.reserve(shares.size());
  for (const auto& share : shares) {
    auto& to = asked.emplace_back();
    to.share = &share;
    to.owner = cluster_->find(share.owner);
    PEERCACHE_ASSERT(to.owner != nullptr); // The plan asks linked owners only.
    to.until = std::min(now + share.patience(left), until);
    to.channel = channels_.lease(*to.owner);
    if (!to.channel) {
      failed(to, page_status::unreachable);
      continue;
    }
    to.channel->ask(share.request, frame_bytes);
    counters_.directory_messages.fetch_add(1, std::memory_order_relaxed);
    advance(to);
  }
  const auto open = [](const question& to) { return to.channel != nullptr; };
  while (std::any_of(asked.begin(), asked.end(), open)) {
    wait(asked);
    interruption::look();
    const auto then = steady_clock::now();
    const bool closed = session_.closing().given();
    for (auto& to : asked) {
      if (to.ready)
        advance(to);
      if (to.channel && (closed || to.until - then < 1ms))
        failed(to, closed ? page_status::closed : page_status::timed_out);
    }
  }
}

void directory_lookup::run(std::span<const page_key> keys, std::span<lookup_answer> answers,
                           deadline until) {
  lookup_plan plan{keys, answers};
  course_.begin(plan);
  follow(plan);
  const auto linked = [this](node_id id) -> const incarnation* {
    const auto* owner = cluster_->find(id);
    return owner != nullptr && owner->linked() ? &owner->self.inc : nullptr;
  };
  while (!session_.closing().given()) {
    const auto shares = course_.next_round(linked, steady_clock::now(), until);
    if (shares.empty())
      return;
    ask(shares, until);
    if (course_.wants_view())
      refresh(plan, until);
  }
  plan.finish();
}

} // namespace peercache::client
