#include "client/lookup/directory_lookup.hpp"

#include "client/lookup/lookup_by_reads.hpp"
#include "client/lookup/lookup_in_own_shard.hpp"
#include "client/lookup/lookup_over_tcp.hpp"
#include "common/assert.hpp"
#include "common/interruption.hpp"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds left_until(deadline until) {
  return std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
}

} // namespace

directory_lookup::directory_lookup(session& with, lookup_channels& channels, remote_shards& shards,
                                   peer_health& health, counters& totals,
                                   std::function<void(std::span<const page_key>)> meanwhile)
    : session_(with), channels_(channels), shards_(shards), health_(health), course_(health),
      counters_(totals), datagrams_(with.members().datagrams(), channels, totals),
      own_(with.board().pool()), meanwhile_(std::move(meanwhile)) {}

void directory_lookup::follow(lookup_plan& plan) {
  cluster_ = session_.board().topology();
  peers_.clear();
  channels_.follow(cluster_->view);
  shards_.follow(cluster_->view);
  health_.follow(cluster_->view);
  auto known = owners_known::by(cluster_->view, cluster_->ring,
                                cluster_->past.asked_at(steady_clock::now()));
  if (own_) {
    known.own = own_->node.id;
    known.replicas = own_->directory_replicas;
  }
  plan.follow(std::move(known));
}

const link::peer* directory_lookup::peer_of(node_id id) {
  const auto [known, is_new] = peers_.try_emplace(id);
  if (is_new)
    known->second = cluster_->find(id);
  return known->second;
}

void directory_lookup::refresh(lookup_plan& plan, deadline until) {
  counters_.view_refreshes.fetch_add(1, std::memory_order_relaxed);
  const auto* informed = cluster_->find(plan.newer_from());
  if (informed != nullptr)
    session_.refresh_view(informed->self.inc, plan.newer(),
                          steady_clock::now() + lookup_plan::patience_for_view(left_until(until)));
  former_ = cluster_;
  follow(plan);
}

void directory_lookup::take(conversation& with, lookup_carrier::state now) {
  using state = lookup_carrier::state;
  if (now == state::asking)
    return;
  if (now == state::broken)
    return course_.failed(*with.question, page_status::unreachable, steady_clock::now());
  if (!course_.answered(*with.question, with.carrier->answer(), steady_clock::now()))
    return;
  const auto& keys = with.question->share.indices;
  if (*during_)
    told_.insert(told_.end(), keys.begin(), keys.end());
  with.carrier->keep();
}

void directory_lookup::drop_ended() {
  std::erase_if(running_, [this](const auto& with) {
    const auto& asked = *with.question;
    if (asked.open)
      return false;
    const auto* owner = peer_of(asked.share.owner);
    slowest_.add(link::call_wait::directory, owner == nullptr ? "" : owner->self.name,
                 steady_clock::now() - asked.asked_at);
    return true;
  });
}

void directory_lookup::end_all(page_status reason) {
  for (auto& with : running_)
    course_.failed(*with.question, reason, steady_clock::now());
  running_.clear();
}

bool directory_lookup::wait_briefly(deadline until) {
  bool some = false;
  // Answers that come by a socket are not looked at meanwhile.
  const bool by_sockets = std::any_of(running_.begin(), running_.end(), [](const auto& with) {
    return with.carrier->awaited().fd >= 0;
  });
  const auto brief = std::min<deadline>(until, steady_clock::now() + (by_sockets ? 50us : 1000us));
  for (auto& with : running_) {
    with.ready = with.carrier->wait_briefly(brief);
    some = some || with.ready;
  }
  return some;
}

void directory_lookup::wait(deadline until) {
  if (wait_briefly(until))
    return;
  waiting_.assign({{session_.closing().file(), POLLIN, 0}, datagrams_.awaited()});
  for (const auto& with : running_) {
    const auto awaited = with.carrier->awaited();
    if (awaited.fd >= 0)
      waiting_.push_back(awaited);
    until = std::min(until, with.carrier->look_at());
  }
  // The wait is rounded up to whole milliseconds: rounded down, it would end just before the look
  // is due, again and again.
  const auto look =
      std::chrono::ceil<milliseconds>(interruption::next_look(until) - steady_clock::now());
  ::poll(waiting_.data(), waiting_.size(), static_cast<int>(std::max(look, 0ms).count()));
  auto next = waiting_.begin() + 2;
  for (auto& with : running_)
    with.ready = with.carrier->awaited().fd >= 0 && (next++)->revents != 0;
  if (waiting_[1].revents != 0)
    datagrams_.receive();
}

void directory_lookup::advance() {
  const auto now = steady_clock::now();
  for (auto& with : running_)
    if (with.question->open && (with.ready || with.carrier->look_at() <= now))
      take(with, with.carrier->advance());
}

std::unique_ptr<lookup_carrier> directory_lookup::carrier_to(const link::peer& owner,
                                                             std::size_t request_bytes,
                                                             std::size_t questions) {
  if (own_ && own_->shard && owner.self.inc == own_->node.inc)
    return std::make_unique<lookup_in_own_shard>(*own_->shard, own_->epochs, channels_, owner,
                                                 asking_of(owner.self.id), counters_);
  if (shards_.can_read(owner, request_bytes))
    return std::make_unique<lookup_by_reads>(shards_, channels_, owner, asking_of(owner.self.id),
                                             questions == 1 && running_.size() == 1);
  if (questions >= datagram_round::worth_from)
    if (auto by_datagram = datagrams_.carrier_to(owner, request_bytes))
      return by_datagram;
  return std::make_unique<lookup_over_tcp>(channels_, owner);
}

directory::remote_search::asking directory_lookup::asking_of(node_id owner) const {
  const auto replicas = own_ ? own_->directory_replicas : owners_known{}.replicas;
  return {{cluster_->view.term, cluster_->view.version},
          [cluster = cluster_, owner, replicas](const page_key& key) {
            return cluster->ring.owns(owner, key, replicas);
          }};
}

deadline directory_lookup::tell() {
  if (!*during_)
    return deadline::max();
  const auto again = (*during_)(told_);
  told_.clear();
  return again;
}

void directory_lookup::ask(std::vector<lookup_course::question*> round) {
  const auto begin = [this, &round](lookup_course::question* due) {
    const auto* owner = peer_of(due->share.owner);
    PEERCACHE_ASSERT(owner != nullptr); // The plan asks linked owners only.
    auto& with = running_.emplace_back();
    with.question = due;
    with.carrier = carrier_to(*owner, due->share.request.size(), round.size());
    counters_.directory_messages.fetch_add(1, std::memory_order_relaxed);
    take(with, with.carrier->start(due->share.request));
  };
  // This thread itself searches the shard of its host, while the other owners answer.
  const auto here = std::partition(round.begin(), round.end(), [this](const auto* due) {
    return !own_ || due->share.owner != own_->node.id;
  });
  std::for_each(round.begin(), here, begin);
  datagrams_.send();
  std::for_each(here, round.end(), begin);
  datagrams_.send(); // To this host's node as well, whose shard may not be attached.
}

void directory_lookup::run(std::span<const page_key> keys, std::span<lookup_answer> answers,
                           deadline until, const while_asking& during) {
  lookup_plan plan{keys, answers};
  course_.begin(plan);
  during_ = &during;
  told_.clear();
  follow(plan);
  const auto linked = [this](node_id id) -> const incarnation* {
    const auto* owner = peer_of(id);
    return owner != nullptr && owner->linked() ? &owner->self.inc : nullptr;
  };
  bool used_first_wait = false;
  while (!session_.closing().given()) {
    if (course_.wants_view()) {
      tell();
      refresh(plan, until);
    }
    ask(course_.next_round(linked, steady_clock::now(), until));
    drop_ended();
    if (course_.is_over())
      return;
    if (meanwhile_ && !std::exchange(used_first_wait, true))
      meanwhile_(keys);
    if (!running_.empty()) // The course asks nobody in its last 1 ms.
      wait(std::min({tell(), course_.next_look(), until - 1ms}));
    interruption::look();
    if (running_.empty())
      continue;
    advance();
    drop_ended();
  }
  end_all(page_status::closed);
  plan.finish();
}

} // namespace peercache::client
