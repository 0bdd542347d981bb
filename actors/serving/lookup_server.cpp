#include "actors/serving/lookup_server.hpp"

#include "common/assert.hpp"
#include "common/beat_time.hpp"
#include "common/limits.hpp"
#include "common/log.hpp"
#include "directory/wire.hpp"
#include "link/protocol/gateway.hpp"
#include "net/frame_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace peercache::actors {

namespace frames = net::frames;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t lookup_listener_id = 0;
constexpr std::uint64_t lookup_datagrams_id = net::event_poll::wake_id - 1;
constexpr int lookup_backlog = 512;
constexpr int lookup_accepts_per_turn = 64;
constexpr std::size_t lookup_read_bytes = 64u << 10;
static_assert(lookup_read_bytes < lookup_connections::held_bytes_max &&
                  lookup_connections::held_bytes_max < lookup_connections::total_bytes_max,
              "a connection has room for what is read at once, and all of them for one");
/// Pause between two looks for late connections: `look_every` while a connection owes its greeting,
/// otherwise `look_for_idle_every`.
constexpr auto look_every = 250ms;
constexpr auto look_for_idle_every = 5000ms;
constexpr auto accept_again_after = 100ms;
/// The longest sleep while there are no connections.
constexpr auto lookup_rest = 60s;
/// The kernel keeps a connection whose peer takes no bytes for as long as this server does.
constexpr net::socket_options lookup_socket{0, 0, 0ms};

static_assert(std::uint64_t{limits::batch_pages_max} *
                          (1 + limits::locations_per_key_max * directory::wire::location_bytes) +
                      link::answer_header_bytes <=
                  frames::payload_bytes_max,
              "the answer to the longest look-up fits a frame");

bool would_block() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

} // namespace

result<std::unique_ptr<lookup_server>> lookup_server::listen(const lookup_server_options& options) {
  auto events = net::event_poll::create();
  if (!events)
    return events.error();
  auto listener = net::listen_on(options.host, options.port, lookup_backlog);
  if (!listener)
    return listener.error();
  if (!events->add(listener->get(), lookup_listener_id))
    return {errc::io_failed, "epoll refuses the listening socket"};
  std::unique_ptr<lookup_server> made(
      new lookup_server(options, std::move(*events), std::move(*listener)));
  if (options.datagrams)
    made->open_datagrams();
  return made;
}

void lookup_server::open_datagrams() {
  auto socket = net::datagram_socket::bind(options_.host, port_);
  if (!socket || !events_.add_reader(socket->fd(), lookup_datagrams_id))
    return log::warn("lookup: no datagrams at port {}, all look-ups come over TCP: {}", port_,
                     socket ? "epoll refuses the socket" : socket.error().message);
  datagrams_.emplace(std::move(*socket), options_.inc, served_);
}

lookup_server::lookup_server(const lookup_server_options& options, net::event_poll events,
                             net::unique_fd listener)
    : options_(options), events_(std::move(events)), listener_(std::move(listener)),
      port_(net::local_port(listener_)), arrivals_(std::make_shared<net::tls_arrivals>(events_)),
      answers_(std::make_shared<relayed_answers>(events_)),
      connections_(frames::greeting(link::wire_version, options.cluster, options.inc),
                   frames::greeting(link::wire_version, options.cluster, options.inc,
                                    link::member_question_magic)),
      received_(lookup_read_bytes) {}

lookup_server::~lookup_server() {
  arrivals_->close();
  answers_->close();
}

void lookup_server::run(lookup_services services) {
  services_ = std::move(services);
  PEERCACHE_ASSERT(services_.pass_on);
  bool spins = false; // Whether the last sleep was so short that it was not worth it.
  for (auto moved_at = clock::now(); !stop_.load(std::memory_order_acquire);) {
    auto now = clock::now();
    if (poll(now))
      moved_at = now = clock::now(); // The spin begins when the last answer has been sent.
    if (!spins || now - moved_at >= spin) {
      wait(now);
      spins = clock::now() - moved_at < spin;
    }
  }
  while (!clients_.empty())
    drop(clients_.begin()->first);
  services_ = {};
}

void lookup_server::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  events_.wake();
}

bool lookup_server::poll(time_point now) {
  if (now >= accept_at_)
    accept_waiting(now);
  bool moved = take_events(now);
  for (auto& each : arrivals_->take())
    begin(std::move(each.socket), now);
  moved |= take_answers(now);
  moved |= serve_datagrams(now);
  moved |= serve_ready(now);
  drop_overdue(now);
  return moved;
}

void lookup_server::wait(time_point now) {
  if (!ready_.empty() || !collected_.empty() || datagrams_wait_ || stop_.load())
    return;
  const auto until = std::min({look_at_, accept_at_, now + lookup_rest});
  collected_ = events_.collect(std::max<clock::duration>(until - now, 0ns));
}

// -- connections

void lookup_server::accept_waiting(time_point now) {
  accept_at_ = time_point::max();
  for (int i = 0; i < lookup_accepts_per_turn; ++i) {
    auto fd = net::accept_from(listener_, lookup_socket);
    if (!fd) {
      // When no descriptor was left, the connection stays in the backlog and no new event tells of
      // it.
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        accept_at_ = now + accept_again_after;
      if ((errno == EMFILE || errno == ENFILE) && lines_.allows("descriptors", now))
        log::warn("lookup: no descriptor is left, connections have to wait; raise the limit of "
                  "open files (ulimit -n, LimitNOFILE)");
      return;
    }
    if (options_.handshakes != nullptr)
      options_.handshakes->add(std::move(fd),
                               [to = arrivals_, now](net::unique_fd socket, net::tls_session tls) {
                                 to->push({{std::move(socket), std::move(tls)}, now});
                               });
    else
      begin(std::move(fd), now);
  }
  accept_at_ = now;
}

void lookup_server::begin(net::stream_socket socket, time_point now) {
  const auto id = ++last_id_;
  if (!connections_.add(id, now)) {
    if (lines_.allows("full", now))
      log::warn("lookup: {} connections are open, further ones are turned away",
                lookup_connections::connections_max);
    return;
  }
  if (!events_.add(socket.fd(), id))
    return connections_.remove(id);
  clients_.try_emplace(id, client{std::move(socket)});
  ready_.push_back(id);
  look_at_ = std::min(look_at_, next_beat(now, look_every));
}

/// Closes a connection, whatever it has not taken yet.
void lookup_server::drop(std::uint64_t id) {
  connections_.remove(id);
  clients_.erase(id);
  if (datagrams_)
    datagrams_->forget(id);
}

void lookup_server::drop_overdue(time_point now) {
  if (now < look_at_)
    return;
  for (const auto id : connections_.overdue(now))
    drop(id);
  look_at_ =
      clients_.empty()
          ? time_point::max()
          : next_beat(now, connections_.some_owe_greeting() ? look_every : look_for_idle_every);
}

void lookup_server::drop_greedy(time_point now) {
  while (const auto most = connections_.one_too_many()) {
    if (lines_.allows("waits", now))
      log::warn("lookup: too many look-ups wait, closed the connection with most of them");
    drop(*most);
  }
}

bool lookup_server::take_events(time_point now) {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_.collect(0ns);
  for (const auto& event : events) {
    // `id` is a copy, because the packed epoll_event does not align its member.
    const std::uint64_t id = event.data.u64;
    if (id == lookup_listener_id) {
      accept_waiting(now);
    } else if (id == lookup_datagrams_id) {
      datagrams_wait_ = true;
    } else if (const auto found = clients_.find(id); found != clients_.end()) {
      auto& of = found->second;
      of.readable |= (event.events & ~EPOLLOUT) != 0;
      of.ending |= (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
      // Under TLS one direction may wait for the other.
      of.readable |= of.socket.under_tls();
      of.writable |= (event.events & EPOLLOUT) != 0 || of.socket.under_tls();
      if (!std::exchange(of.is_ready, true))
        ready_.push_back(id);
    }
  }
  return !events.empty();
}

bool lookup_server::serve_datagrams(time_point now) {
  if (!datagrams_wait_)
    return false;
  datagrams_wait_ = datagrams_->serve([this](std::string_view keys) { return look_up(keys); }, now);
  return true;
}

bool lookup_server::serve_ready(time_point now) {
  const auto ids = std::exchange(ready_, {});
  for (const auto id : ids) {
    serve(id, now);
    drop_greedy(now);
  }
  return !ids.empty();
}

void lookup_server::serve(std::uint64_t id, time_point now) {
  const auto found = clients_.find(id);
  if (found == clients_.end())
    return;
  auto& served = found->second;
  served.is_ready = false;
  if (!receive(id, served, now) || !flush(id, served, now))
    return drop(id);
  if (served.readable) {
    served.is_ready = true;
    ready_.push_back(id);
  }
}

/// Receives some bytes of a connection. Returns their number; nothing at the connection's end.
std::optional<std::size_t> lookup_server::receive_some(std::uint64_t id, client& from) {
  // A stranger gets no more room than a greeting needs.
  const auto room = connections_.greeted(id) ? received_.size() : frames::greeting_bytes;
  const auto got = from.socket.receive(received_.data(), room);
  if (got < 0 && would_block()) {
    from.readable = errno == EINTR;
    return 0;
  }
  if (got <= 0)
    return std::nullopt;
  // A plain socket that gave less than there was room for is empty: the next bytes are an event.
  if (static_cast<std::size_t>(got) < room && !from.ending && !from.socket.under_tls())
    from.readable = false;
  return static_cast<std::size_t>(got);
}

/// Receives questions and answers them, or passes them on. Answers go out while the peer still
/// sends. False: the connection is over.
bool lookup_server::receive(std::uint64_t id, client& from, time_point now) {
  for (std::size_t all = 0; from.readable && all < turn_bytes;) {
    const auto got = receive_some(id, from);
    if (!got)
      return false;
    all += *got;
    questions_.clear();
    if (!connections_.receive(id, {received_.data(), *got}, now, questions_)) {
      log::debug("lookup: closed a connection that breaks the rules, or asks and does not read");
      return false;
    }
    const bool of_member = connections_.asks_member(id);
    for (auto& question : questions_)
      if (!(of_member ? ask_member(id, from, question) : ask(id, from, std::move(question))))
        return false;
    if (!flush(id, from, now))
      return false;
  }
  return true;
}

/// Sends what can be sent without blocking. False: the connection is over.
bool lookup_server::flush(std::uint64_t id, client& to, time_point now) {
  while (to.writable && to.sent < to.out.size()) {
    const auto taken = to.socket.send(to.out.data() + to.sent, to.out.size() - to.sent);
    if (taken < 0 && would_block()) {
      to.writable = errno == EINTR;
      continue;
    }
    if (taken < 0)
      return false;
    to.sent += static_cast<std::size_t>(taken);
    connections_.taken(id, static_cast<std::size_t>(taken), now);
  }
  to.out.erase(0, std::exchange(to.sent, 0));
  give_back_room(to.out);
  return true;
}

// -- questions

/// Answers a look-up from the shard; nothing when the directory has to be asked.
std::optional<result<std::string>> lookup_server::look_up(std::string_view keys) {
  if (!services_.shard)
    return std::nullopt;
  return services_.shard->try_look_up(keys);
}

/// Answers a look-up of a call, or passes it on. Look-ups have no numbers: while one of a
/// connection is passed on, its next ones are too. False: the connection is over.
bool lookup_server::ask(std::uint64_t id, client& from, std::string question) {
  const open_question open{id, std::nullopt, member_question::look_up, question.size()};
  if (!connections_.waits(id))
    if (const auto answered = look_up(question))
      return *answered && answer(open, from, **answered);
  connections_.passed_on(id);
  return pass_on(open, std::move(question));
}

/// Answers a question that is not a look-up of a call, or passes it on. False: the connection is
/// over. @pre `read_question` takes `payload`
bool lookup_server::ask_member(std::uint64_t id, client& from, std::string_view payload) {
  const auto asked = link::read_question(payload);
  PEERCACHE_ASSERT(asked); // `lookup_connections` passes only payloads that `read_question` takes.
  const open_question open{id, asked->number, asked->kind, asked->body.size()};
  if (asked->kind == member_question::hello)
    return answer(open, from,
                  datagrams_ ? datagrams_->pass_of(id, net::peer_address(from.socket.fd())) : "");
  if (asked->kind == member_question::look_up)
    if (const auto answered = look_up(asked->body))
      return *answered && answer(open, from, **answered);
  if (asked->kind == member_question::hold && services_.held)
    return answer(open, from, services_.held->take(link::hold_of(asked->body), clock::now()));
  return pass_on(open, std::string(asked->body));
}

/// Asks an actor of this process. Until the answer comes, the question and its bytes count against
/// the connection's limits. False: too many questions are open.
bool lookup_server::pass_on(const open_question& open, std::string body) {
  if (open_.size() >= open_max) {
    if (lines_.allows("open", clock::now()))
      log::warn(
          "lookup: {} questions wait for the node's actors, closed a connection that asks more",
          open_max);
    return false;
  }
  const auto ticket = ++last_ticket_;
  open_.emplace(ticket, open);
  services_.pass_on(ticket, open.kind, std::move(body));
  return true;
}

bool lookup_server::take_answers(time_point now) {
  auto arrived = answers_->take();
  for (auto& each : arrived) {
    const auto asked = open_.extract(each.ticket);
    PEERCACHE_ASSERT(!asked.empty()); // Each ticket is answered once.
    const auto& open = asked.mapped();
    const auto found = clients_.find(open.connection);
    if (found == clients_.end())
      continue;
    if (!each.body || !answer(open, found->second, *each.body) ||
        !flush(open.connection, found->second, now))
      drop(open.connection);
  }
  return !arrived.empty();
}

/// Puts an answer behind those that are to be sent. False: the answer is too long for a frame, or
/// the connection is over.
bool lookup_server::answer(const open_question& open, client& to, std::string_view body) {
  const auto before = to.out.size();
  if (!open.number) {
    frames::append_frame(to.out, body);
    return connections_.answered(open.connection, open.body_bytes, to.out.size() - before);
  }
  if (body.size() + link::answer_header_bytes > frames::payload_bytes_max)
    return false; // Only a view of thousands of members with the longest names is that long.
  frames::append_frame(to.out, link::encode_answer(*open.number, body));
  return connections_.member_answered(open.connection, open.kind, open.body_bytes,
                                      to.out.size() - before);
}

} // namespace peercache::actors
