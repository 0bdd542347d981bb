#include "client/directory_lookup.hpp"

#include "directory/wire.hpp"

#include <algorithm>
#include <poll.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Keys of one frame: a large question is answered in parts while the rest is still on its way.
constexpr std::size_t frame_bytes = 128 * directory::wire::key_bytes;

milliseconds left_until(deadline until) {
  return std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
}

bool contains(const std::vector<node_id>& ids, node_id wanted) {
  return std::find(ids.begin(), ids.end(), wanted) != ids.end();
}

} // namespace

directory_lookup::directory_lookup(session& with, lookup_channels& channels, peer_health& health,
                                   counters& totals)
    : session_(with), channels_(channels), health_(health), counters_(totals),
      own_(with.board().pool()) {}

void directory_lookup::follow(lookup_plan& plan) {
  cluster_ = session_.board().topology();
  channels_.follow(cluster_->view);
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
  refreshed_ = true;
  counters_.view_refreshes.fetch_add(1, std::memory_order_relaxed);
  const auto* informed = cluster_->find(plan.newer_from());
  if (informed != nullptr)
    session_.refresh_view(informed->gateway, plan.newer(),
                          steady_clock::now() + lookup_plan::patience_for_view(left_until(until)));
  follow(plan);
}

lookup_plan::use directory_lookup::usable(node_id id, bool now) {
  const auto* owner = cluster_->find(id);
  if (owner == nullptr || !owner->linked())
    return lookup_plan::use::no_link;
  if (contains(given_up_, id))
    return lookup_plan::use::left_alone;
  if (contains(chosen_, id))
    return lookup_plan::use::yes;
  if (!now) {
    if (!contains(free_, id) && health_.is_left_alone(owner->self.inc, steady_clock::now()))
      return lookup_plan::use::left_alone;
    if (!contains(free_, id))
      free_.push_back(id);
    return lookup_plan::use::yes;
  }
  if (health_.allow(owner->self.inc, steady_clock::now())) {
    chosen_.push_back(id);
    return lookup_plan::use::yes;
  }
  given_up_.push_back(id);
  return lookup_plan::use::left_alone;
}

void directory_lookup::failed(lookup_plan& plan, question& asked, page_status reason) {
  given_up_.push_back(asked.owner->self.id);
  health_.on_failure(asked.owner->self.inc, steady_clock::now());
  plan.failed(*asked.share, reason);
  asked.channel.reset(); // A late answer must not meet the next question.
}

void directory_lookup::advance(lookup_plan& plan, question& asked) {
  using state = rdma::frame_channel::state;
  auto now = asked.channel->advance();
  if (now == state::asking)
    return;
  if (now == state::broken || !plan.answered(*asked.share, asked.channel->answer()))
    return failed(plan, asked, page_status::unreachable);
  health_.on_success(asked.owner->self.inc);
  channels_.give_back(asked.owner->self.inc, std::move(asked.channel));
}

void directory_lookup::wait(std::span<question> asked) {
  std::vector<pollfd> waiting;
  auto until = deadline::max();
  for (const auto& to : asked)
    if (to.channel) {
      waiting.push_back({to.channel->fd(), to.channel->events(), 0});
      until = std::min(until, to.until);
    }
  auto left = std::max(left_until(until), 0ms);
  waiting.push_back({session_.closing().file(), POLLIN, 0});
  ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
  auto next = waiting.begin();
  for (auto& to : asked)
    to.ready = to.channel && (next++)->revents != 0;
}

void directory_lookup::ask(lookup_plan& plan, const std::vector<lookup_plan::share>& shares,
                           deadline until) {
  const auto now = steady_clock::now();
  const auto left = left_until(until);
  std::vector<question> asked;
  asked.reserve(shares.size());
  for (const auto& share : shares) {
    auto& to = asked.emplace_back();
    to.share = &share;
    to.owner = cluster_->find(share.owner);
    to.until = std::min(now + share.patience(left), until);
    to.channel = channels_.lease(*to.owner);
    if (!to.channel) {
      failed(plan, to, page_status::unreachable);
      continue;
    }
    to.channel->ask(share.request, frame_bytes);
    counters_.directory_messages.fetch_add(1, std::memory_order_relaxed);
    advance(plan, to);
  }
  const auto open = [](const question& to) { return to.channel != nullptr; };
  while (std::any_of(asked.begin(), asked.end(), open)) {
    wait(asked);
    const auto then = steady_clock::now();
    const bool closed = session_.closing().given();
    for (auto& to : asked) {
      if (to.ready)
        advance(plan, to);
      if (to.channel && (closed || to.until - then < 1ms))
        failed(plan, to, closed ? page_status::closed : page_status::timed_out);
    }
  }
}

void directory_lookup::run(std::span<const page_key> keys, std::span<lookup_answer> answers,
                           deadline until) {
  lookup_plan plan{keys, answers};
  follow(plan);
  const auto may_ask = [this](node_id id, bool now) { return usable(id, now); };
  bool in_time = true;
  for (int round = 0; round < lookup_plan::rounds_max; ++round) {
    in_time = left_until(until) >= 1ms;
    if (!in_time || session_.closing().given())
      break;
    auto shares = plan.next_round(may_ask);
    if (shares.empty())
      break;
    ask(plan, shares, until);
    if (plan.is_behind() && !refreshed_)
      refresh(plan, until);
  }
  plan.finish(in_time);
}

} // namespace peercache::client
