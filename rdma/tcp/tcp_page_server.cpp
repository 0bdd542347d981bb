#include "rdma/tcp/tcp_page_server.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"

#include <cerrno>
#include <utility>

namespace peercache::rdma {

namespace {

constexpr std::uint64_t listener_id = 0;
constexpr int backlog = 512;
constexpr int accepts_per_turn = 64;
constexpr std::size_t session_turn_bytes = 4u << 20;
/// Pause between two looks for slow readers while a session sends an answer, and the shortest one
/// between two looks for overdue sessions.
constexpr auto session_reap_every = std::chrono::milliseconds(100);

} // namespace

result<std::unique_ptr<tcp_page_server>>
tcp_page_server::listen(const tcp_page_server_options& opts, const served_memory& what) {
  auto events = net::event_poll::create();
  if (!events)
    return events.error();
  auto listener = net::listen_on(opts.host, opts.port, backlog);
  if (!listener)
    return listener.error();
  if (!events->add(listener->get(), listener_id))
    return {errc::io_failed, "epoll refuses the listening socket"};
  return std::unique_ptr<tcp_page_server>(
      new tcp_page_server(opts, what, std::move(*events), std::move(*listener)));
}

tcp_page_server::tcp_page_server(const tcp_page_server_options& opts, const served_memory& what,
                                 net::event_poll events, net::unique_fd listener)
    : shared_(opts, what), events_(std::move(events)), listener_(std::move(listener)),
      arrivals_(std::make_shared<net::tls_arrivals>(events_)) {}

bool tcp_page_server::poll(clock::time_point now) {
  if (accept_again_)
    accept_waiting(now);
  bool moved = take_arrivals(now);
  moved |= run_sessions(now);
  if (take_events(now))
    moved |= run_sessions(now);
  if (now >= reap_at_) {
    reap(now);
    if (!wants_pin_room_.empty())
      make_pin_room(now);
    reap_at_ = next_reap(now);
  }
  return moved;
}

bool tcp_page_server::take_events(clock::time_point now) {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_.collect(std::chrono::nanoseconds(0));
  for (const auto& event : events) {
    // `id` is a copy, because the packed epoll_event does not align its member.
    const std::uint64_t id = event.data.u64;
    if (id == listener_id) {
      accept_waiting(now);
    } else if (const auto found = sessions_.find(id); found != sessions_.end()) {
      found->second->on_events(event.events);
      ready_.push_back(id);
    }
  }
  return !events.empty();
}

void tcp_page_server::accept_waiting(clock::time_point now) {
  accept_again_ = false;
  for (int i = 0; i < accepts_per_turn; ++i) {
    auto fd = net::accept_from(listener_, shared_.options.socket);
    if (!fd) {
      // When no descriptor was left, the connection stays in the backlog and no new event tells of
      // it, so the next poll must accept again.
      accept_again_ = errno != EAGAIN && errno != EWOULDBLOCK;
      if ((errno == EMFILE || errno == ENFILE) && lines_.allows("", now))
        log::warn("page server: no descriptor is left, connections have to wait; raise the limit "
                  "of open files (ulimit -n, LimitNOFILE)");
      return;
    }
    if (auto* handshakes = shared_.options.handshakes; handshakes != nullptr)
      handshakes->add(std::move(fd),
                      [to = arrivals_, now](net::unique_fd socket, net::tls_session tls) {
                        to->push({{std::move(socket), std::move(tls)}, now});
                      });
    else
      begin_session(std::move(fd), now, now);
  }
  accept_again_ = true;
}

bool tcp_page_server::take_arrivals(clock::time_point now) {
  auto arrived = arrivals_->take();
  for (auto& each : arrived)
    begin_session(std::move(each.socket), each.came_at, now);
  return !arrived.empty();
}

void tcp_page_server::begin_session(net::stream_socket socket, clock::time_point came_at,
                                    clock::time_point now) {
  if (sessions_.size() >= shared_.options.connections_max) {
    ++stats_.turned_away;
    return;
  }
  const auto id = next_id_++;
  if (!events_.add(socket.fd(), id))
    return;
  ++stats_.accepted;
  const auto& begun =
      *sessions_
           .emplace(id,
                    std::make_unique<tcp_server_session>(shared_, std::move(socket), came_at, now))
           .first->second;
  reap_at_ = std::min(reap_at_, look_at(begun, now));
}

bool tcp_page_server::run_sessions(clock::time_point now) {
  using progress = tcp_server_session::progress;
  auto ids = std::exchange(wants_pin_room_, {}); // The oldest first.
  const auto ready = std::exchange(ready_, {});
  ids.insert(ids.end(), ready.begin(), ready.end());
  bool moved = false;
  for (const auto id : ids) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end())
      continue;
    switch (found->second->step(now, session_turn_bytes)) {
    case progress::moved:
      moved = true;
      ready_.push_back(id);
      break;
    case progress::wants_pin_room:
      wants_pin_room_.push_back(id);
      reap_at_ = std::min(reap_at_, now + session_reap_every);
      break;
    case progress::given_away:
      give_away(*found->second);
      [[fallthrough]];
    case progress::ended:
      moved = true;
      sessions_.erase(found);
      break;
    case progress::blocked:
      reap_at_ = std::min(reap_at_, look_at(*found->second, now));
      break;
    }
  }
  return moved;
}

void tcp_page_server::give_away(tcp_server_session& session) {
  PEERCACHE_ASSERT(shared_.options.on_verbs_hello);
  ++stats_.given_away;
  auto socket = session.take_socket();
  events_.remove(socket.fd());
  shared_.options.on_verbs_hello(std::move(socket), session.verbs_greeting(), session.came_at());
}

void tcp_page_server::wait(clock::duration at_most) {
  if (!ready_.empty() || !collected_.empty())
    return;
  auto sleep = at_most;
  if (accept_again_)
    sleep = std::min<clock::duration>(sleep, session_reap_every);
  if (!sessions_.empty())
    sleep = std::min(sleep, reap_at_ - clock::now());
  collected_ = events_.collect(std::max(sleep, clock::duration::zero()));
}

/// When a session has to be looked at: at its end, unless something moves, or soon while it sends.
clock::time_point tcp_page_server::look_at(const tcp_server_session& session,
                                           clock::time_point now) {
  const auto soon = now + session_reap_every;
  return std::max(session.ends_at().value_or(soon), soon);
}

/// When the next session may be overdue, or a session that waits for room gets it.
clock::time_point tcp_page_server::next_reap(clock::time_point now) const {
  if (!ready_.empty() || !wants_pin_room_.empty())
    return now + session_reap_every;
  auto next = clock::time_point::max();
  for (const auto& [id, session] : sessions_)
    next = std::min(next, look_at(*session, now));
  return next;
}

void tcp_page_server::reap(clock::time_point now) {
  stats_.reaped +=
      std::erase_if(sessions_, [now](const auto& entry) { return entry.second->overdue(now); });
}

/// Ends the session of a slow reader, so that other readers get room: among the slow readers of the
/// peer that pins most, the reader that pins most.
void tcp_page_server::make_pin_room(clock::time_point now) {
  const auto rank = [this](const tcp_server_session& session) {
    return std::pair(shared_.pins.of(session.peer()), session.pinned_bytes());
  };
  auto worst = sessions_.end();
  for (auto each = sessions_.begin(); each != sessions_.end(); ++each)
    if (each->second->pinned_bytes() > 0 &&
        each->second->slow_for(now) >= shared_.options.send_timeout_of_full &&
        (worst == sessions_.end() || rank(*each->second) > rank(*worst->second)))
      worst = each;
  if (worst == sessions_.end())
    return;
  sessions_.erase(worst);
  ++stats_.reaped;
}

tcp_page_server_stats tcp_page_server::stats() const noexcept {
  auto stats = stats_;
  stats.payloads = shared_.payloads;
  stats.bytes_sent = shared_.bytes_sent;
  return stats;
}

} // namespace peercache::rdma
