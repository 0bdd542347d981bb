#include "handoff/links/worker_links.hpp"

#include "common/assert.hpp"
#include "common/printable.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace peercache::handoff {

namespace {

constexpr std::uint64_t listener_id = 0;
/// Epoll's id of the descriptor of `also_wait_for`; no link has so high an id.
constexpr std::uint64_t owners_id = net::event_poll::wake_id - 1;
constexpr int backlog = 512;
constexpr int accepts_per_turn = 16;
/// Time until the listener is tried again after the process had no descriptor left.
constexpr auto accept_again_after = std::chrono::milliseconds(100);

} // namespace

result<std::unique_ptr<worker_links>> worker_links::listen(link_options opts, hello self) {
  PEERCACHE_ASSERT(self.process != incarnation{} && opts.strangers_max > 0 &&
                   (opts.tls == nullptr) == (opts.handshakes == nullptr));
  if (auto may = may_listen(opts.host, opts.tls != nullptr, opts.insecure_cluster); !may)
    return may.error();
  if (self.cluster.size() > limits::cluster_bytes_max || printable(self.cluster) != self.cluster)
    return {errc::invalid_argument,
            "the cluster '" + printable(self.cluster) +
                "' has a name that other workers cannot compare with theirs; give it one of at "
                "most " +
                std::to_string(limits::cluster_bytes_max) + " bytes of printable ASCII"};
  auto events = net::event_poll::create();
  if (!events)
    return events.error();
  auto listener = net::listen_on(opts.host, opts.port, backlog);
  if (!listener)
    return listener.error();
  if (!events->add(listener->get(), listener_id))
    return {errc::io_failed, "epoll refuses the listening socket"};
  return std::unique_ptr<worker_links>(
      new worker_links(std::move(opts), std::move(self), std::move(*events), std::move(*listener)));
}

worker_links::worker_links(link_options opts, hello self, net::event_poll events,
                           net::unique_fd listener)
    : own_{std::move(opts), std::move(self)}, events_poll_(std::move(events)),
      listener_(std::move(listener)), arrivals_(std::make_shared<net::tls_arrivals>(events_poll_)),
      events_(own_.options.events_bytes_max) {}

// -- commands of the owner

result<peer_id> worker_links::connect(const worker_address& to, std::optional<incarnation> meant,
                                      time_point now) {
  if (closed_)
    return {errc::closed, "the worker has ended its connections"};
  if (const auto known = dialed_.find(to); known != dialed_.end()) {
    const auto at = links_.find(known->second);
    if (!meant || at->second.link.narrow_to(*meant))
      return at->first;
    at->second.link.lose(loss_reason::closed, "another process is meant at its address now",
                         events_);
    settle(at);
  }
  if (is_full())
    return {errc::refused, limit_reached()};
  auto socket = net::start_connect(to.host, to.port, socket_options());
  if (!socket)
    return socket.error();
  const auto made = add(net::stream_socket::dialled(std::move(*socket), own_.options.tls),
                        peer_link::origin::dialed, now);
  if (made == links_.end())
    return {errc::io_failed, "epoll refuses a socket"};
  if (meant)
    made->second.link.narrow_to(*meant);
  made->second.dialed = to;
  dialed_.emplace(to, made->first);
  return made->first;
}

void worker_links::send(peer_id to, const message& what, time_point now) {
  const auto at = links_.find(to);
  if (at == links_.end())
    return;
  at->second.link.send(what, now, events_);
  settle(at);
}

bool worker_links::send_at_once(peer_id to, const message& what, time_point now) {
  if (const auto at = links_.find(to); at != links_.end()) {
    at->second.link.send(what, now, events_);
    at->second.link.flush();
    settle(at);
  }
  return !events_.empty() || !ready_.empty();
}

void worker_links::refuse(peer_id peer, const std::string& reason, time_point now) {
  const auto at = links_.find(peer);
  if (at == links_.end() || !at->second.link.is_open())
    return;
  at->second.link.refuse(reason, now);
  settle(at);
}

void worker_links::close() {
  for (auto& [id, at] : links_)
    at.link.flush();
  links_.clear();
  dialed_.clear();
  ready_.clear();
  events_.take();
  arrivals_->close();
  listener_.reset();
  collected_ = {};
  timers_at_ = time_point::max();
  accept_at_.reset();
  closed_ = true;
}

// -- the loop over sockets and timers

std::vector<link_event> worker_links::poll(time_point now) {
  note_events(now);
  // Events of connections that have ended come before those of connections that take their place.
  run_ready(now);
  if (accept_at_ && now >= *accept_at_)
    accept_waiting(now);
  take_arrivals(now);
  if (now >= timers_at_)
    check_times(now);
  auto events = events_.take();
  for (const auto& event : events) {
    stats_.joined += std::holds_alternative<peer_joined>(event);
    stats_.lost += std::holds_alternative<peer_lost>(event);
  }
  return events;
}

std::chrono::nanoseconds worker_links::sleep_time(time_point now,
                                                  std::chrono::nanoseconds at_most) {
  constexpr std::chrono::nanoseconds none{0};
  const bool was_woken = std::exchange(woken_, false);
  if (was_woken || !ready_.empty() || !events_.empty())
    return none;
  const auto until = std::min(timers_at_, accept_at_.value_or(time_point::max()));
  return until == time_point::max()
             ? at_most
             : std::clamp<std::chrono::nanoseconds>(until - now, none, at_most);
}

void worker_links::sleep(std::chrono::nanoseconds at_most) {
  if (at_most > std::chrono::nanoseconds(0) && collected_.empty())
    collected_ = events_poll_.collect(at_most);
}

bool worker_links::also_wait_for(int descriptor) noexcept {
  return events_poll_.add(descriptor, owners_id);
}

void worker_links::note_events(time_point now) {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_poll_.collect(std::chrono::nanoseconds(0));
  for (const auto& event : events) {
    // `id` is a copy, because the packed epoll_event does not align its member.
    const std::uint64_t id = event.data.u64;
    if (id == net::event_poll::wake_id) {
      woken_ = true;
    } else if (id == listener_id) {
      accept_at_ = now;
    } else if (const auto found = links_.find(peer_id{id}); found != links_.end()) {
      found->second.link.on_events(event.events);
      mark_ready(found->first, found->second);
    }
  }
}

void worker_links::accept_waiting(time_point now) {
  accept_at_ = now;
  for (int i = 0; i < accepts_per_turn; ++i) {
    auto socket = net::accept_from(listener_, socket_options());
    if (!socket) {
      // When no descriptor was left, the connection stays in the backlog and no new event tells of
      // it.
      const bool none = errno == EAGAIN || errno == EWOULDBLOCK;
      accept_at_ = none ? std::nullopt : std::optional(now + accept_again_after);
      return;
    }
    if (auto* handshakes = own_.options.handshakes; handshakes != nullptr)
      handshakes->add(std::move(socket),
                      [to = arrivals_, now](net::unique_fd fd, net::tls_session tls) {
                        to->push({{std::move(fd), std::move(tls)}, now});
                      });
    else
      begin_stranger(std::move(socket), now);
  }
}

void worker_links::take_arrivals(time_point now) {
  for (auto& each : arrivals_->take())
    begin_stranger(std::move(each.socket), now);
}

void worker_links::begin_stranger(net::stream_socket socket, time_point now) {
  make_room_for_stranger();
  const auto made = add(std::move(socket), peer_link::origin::accepted, now);
  if (made == links_.end())
    return;
  ++stats_.accepted;
  // The hello of a real worker has most likely arrived already; once it is read, new strangers can
  // no longer displace the link.
  made->second.link.on_events(EPOLLIN | EPOLLOUT);
  step(made, now);
}

worker_links::entries::iterator worker_links::add(net::stream_socket socket, peer_link::origin from,
                                                  time_point now) {
  const peer_id id{next_id_++};
  if (!events_poll_.add(socket.fd(), id.value))
    return links_.end();
  const auto [at, is_new] = links_.try_emplace(id, id, own_, std::move(socket), from, now);
  PEERCACHE_ASSERT(is_new);
  timers_at_ = std::min(timers_at_, at->second.link.deadline());
  return at;
}

void worker_links::make_room_for_stranger() {
  if (strangers() < own_.options.strangers_max)
    return;
  const auto oldest = std::find_if(links_.begin(), links_.end(),
                                   [](const auto& at) { return at.second.link.is_stranger(); });
  links_.erase(oldest);
  ++stats_.turned_away;
}

net::socket_options worker_links::socket_options() const noexcept {
  return {.user_timeout = own_.options.silence_max};
}

bool worker_links::is_full() const noexcept {
  return links_.size() - strangers() >= own_.options.links_max;
}

std::string worker_links::limit_reached() const {
  return "the worker has " + std::to_string(own_.options.links_max) +
         " connections to others, which is its limit";
}

std::size_t worker_links::strangers() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      links_.begin(), links_.end(), [](const auto& at) { return at.second.link.is_stranger(); }));
}

void worker_links::run_ready(time_point now) {
  const auto turns = std::exchange(ready_, {});
  auto next = turns.begin();
  for (; next != turns.end() && !events_.is_full(); ++next) {
    const auto at = links_.find(*next);
    if (at == links_.end())
      continue;
    at->second.ready = false;
    step(at, now);
  }
  // Links that did not get a turn come before links that got a turn and want another.
  ready_.insert(ready_.begin(), next, turns.end());
}

void worker_links::step(entries::iterator at, time_point now) {
  auto& link = at->second.link;
  // The limit is checked when a stranger may say hello, because many strangers can have connected
  // before the limit was reached.
  if (link.is_open() && link.is_stranger() && is_full()) {
    ++stats_.turned_away;
    link.refuse(limit_reached(), now);
  }
  link.step(now, events_);
  settle(at);
}

void worker_links::check_times(time_point now) {
  timers_at_ = time_point::max();
  for (auto at = links_.begin(); at != links_.end();) {
    const auto next = std::next(at);
    at->second.link.check_time(now, events_);
    settle(at);
    at = next;
  }
}

void worker_links::settle(entries::iterator at) {
  auto& [link, dialed, ready] = at->second;
  if (dialed && !link.is_open())
    dialed_.erase(*std::exchange(dialed, std::nullopt));
  if (link.wants_turn())
    mark_ready(at->first, at->second);
  if (link.in_phase() == peer_link::phase::over)
    links_.erase(at);
  else
    timers_at_ = std::min(timers_at_, link.deadline());
}

void worker_links::mark_ready(peer_id id, entry& at) {
  if (!std::exchange(at.ready, true))
    ready_.push_back(id);
}

} // namespace peercache::handoff
