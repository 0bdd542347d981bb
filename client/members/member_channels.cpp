#include "client/members/member_channels.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "link/protocol/gateway.hpp"
#include "net/frame_channel.hpp"

#include <algorithm>
#include <set>

namespace peercache::client {

using std::chrono::steady_clock;

member_channels::member_channels(std::string cluster, std::shared_ptr<net::tls_context> tls,
                                 bool by_datagram)
    : cluster_(std::move(cluster)), tls_(std::move(tls)), datagrams_(by_datagram) {
  if (auto poll = net::event_poll::create())
    poll_.emplace(std::move(*poll));
  else
    log::error("client: no connection to any node: {}", poll.error().message);
}

bool member_channels::post(std::function<void(time_point)> order) {
  {
    std::lock_guard guard{lock_};
    if (!poll_ || stopped_ || orders_.size() >= orders_max)
      return false;
    orders_.push_back(std::move(order));
  }
  poll_->wake();
  return true;
}

void member_channels::open(const discovery::member& whom) {
  if (!post([this, whom](time_point now) { do_open(whom, now); }) && hears_)
    hears_(whom.inc, false);
}

void member_channels::follow(const discovery::view& view) {
  std::set<incarnation> kept;
  for (const auto& member : view.members)
    kept.insert(member.inc);
  post([this, kept = std::move(kept)](time_point) {
    std::vector<std::uint64_t> gone;
    for (const auto& [id, known] : channels_)
      if (!kept.contains(known.member))
        gone.push_back(id);
    for (const auto id : gone)
      close(id);
  });
}

void member_channels::ask(const incarnation& whom, member_request request) {
  auto shared = std::make_shared<member_request>(std::move(request));
  const bool is_posted = post([this, whom, shared](time_point now) {
    const auto found = ids_.find(whom);
    if (found == ids_.end())
      return shared->take({});
    channels_.at(found->second).channel.ask(std::move(*shared));
    step(found->second, now);
  });
  if (!is_posted)
    shared->take({question_end::not_sent, {}});
}

void member_channels::stop() noexcept {
  {
    std::lock_guard guard{lock_};
    stopped_ = true;
  }
  if (poll_)
    poll_->wake();
}

void member_channels::do_open(const discovery::member& whom, time_point now) {
  if (const auto known = ids_.find(whom.inc); known != ids_.end()) {
    auto& entry = channels_.at(known->second);
    if (entry.host == whom.host) {
      if (entry.told)
        hears_(whom.inc, true);
      return;
    }
    close(known->second);
  }
  auto socket = net::start_connect(whom.host, whom.lookup_port, {});
  const auto id = ++last_id_;
  if (!socket || !poll_->add(socket->get(), id))
    return hears_(whom.inc, false);
  channels_.try_emplace(
      id, whom, net::stream_socket::dialled(std::move(*socket), tls_),
      net::frames::greeting(link::wire_version, cluster_, whom.inc, link::member_question_magic),
      now);
  ids_[whom.inc] = id;
  next_due_ = std::min(next_due_, channels_.at(id).channel.due());
}

void member_channels::close(std::uint64_t id) {
  const auto found = channels_.find(id);
  PEERCACHE_ASSERT(found != channels_.end());
  ids_.erase(found->second.member);
  datagrams_.forget(found->second.member);
  found->second.channel.end();
  channels_.erase(found);
}

void member_channels::step(std::uint64_t id, time_point now) {
  const auto found = channels_.find(id);
  if (found == channels_.end())
    return;
  auto& known = found->second;
  const auto member = known.member;
  if (!known.channel.step(now)) {
    close(id);
    return hears_(member, false);
  }
  next_due_ = std::min(next_due_, known.channel.due());
  if (!known.channel.stands() || std::exchange(known.told, true))
    return;
  if (const auto& pass = known.channel.pass())
    datagrams_.learn(member, known.host, known.port, *pass);
  hears_(member, true);
}

void member_channels::do_orders(time_point now) {
  std::vector<std::function<void(time_point)>> orders;
  {
    std::lock_guard guard{lock_};
    orders.swap(orders_);
  }
  for (const auto& order : orders)
    order(now);
}

void member_channels::look_at_clock(time_point now) {
  if (now < next_due_)
    return;
  next_due_ = time_point::max();
  std::vector<std::uint64_t> all;
  all.reserve(channels_.size());
  for (const auto& [id, known] : channels_)
    all.push_back(id);
  for (const auto id : all)
    step(id, now);
}

void member_channels::run() {
  PEERCACHE_ASSERT(hears_);
  while (poll_ && !stopped_) {
    const auto wait = next_due_ == time_point::max()
                          ? std::chrono::nanoseconds(std::chrono::hours(1))
                          : next_due_ - steady_clock::now();
    const auto events = poll_->collect(std::max(wait, std::chrono::nanoseconds(0)));
    const auto now = steady_clock::now();
    for (const auto& event : events) {
      // `id` is a copy, because the packed epoll_event does not align its member.
      const std::uint64_t id = event.data.u64;
      if (const auto found = channels_.find(id); found != channels_.end()) {
        found->second.channel.on_events(event.events);
        step(id, now);
      }
    }
    do_orders(now);
    look_at_clock(now);
  }
  do_orders(steady_clock::now());
  for (auto& [id, known] : channels_)
    known.channel.end();
  channels_.clear();
  ids_.clear();
}

} // namespace peercache::client
