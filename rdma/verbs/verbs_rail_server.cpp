#include "rdma/verbs/verbs_rail_server.hpp"

#include "common/assert.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>
#include <utility>

namespace peercache::rdma {

namespace {

constexpr std::uint64_t device_id = 0;
static_assert(static_cast<std::size_t>(session_end::memory_removed) + 1 == session_ends);
constexpr auto reap_every = std::chrono::milliseconds(100);
constexpr auto publish_every = std::chrono::milliseconds(100);

/// Whether the reader has closed the connection already; a queue pair would be wasted on it.
bool has_left(const net::stream_socket& socket) noexcept {
  char next;
  const auto got = ::recv(socket.fd(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/// The server's path to a reader, with the capabilities that both ends agreed on.
verbs::path path_to(const queue_pair_end& reader, const queue_pair_end& agreed) noexcept {
  verbs::path to;
  to.remote_queue_pair = reader.queue_pair;
  to.remote_psn = reader.psn;
  to.own_psn = agreed.psn;
  to.remote_gid = reader.gid;
  to.remote_lid = reader.lid;
  to.mtu_bytes = agreed.mtu_bytes;
  to.initiator_depth = agreed.initiator_depth;
  to.responder_depth = agreed.responder_depth;
  return to;
}

/// Sends a refusal with one try: an answer of this size fits into a socket that nothing was sent on
/// yet, and a reader that does not get the refusal has its own time-out.
void send_once(net::stream_socket& socket, const verbs_answer& answer) noexcept {
  [[maybe_unused]] const auto sent = socket.send(&answer, sizeof answer);
}

result<void> check(const verbs_server_options& options, const served_region& pool) {
  PEERCACHE_ASSERT(options.rail < options.rails && options.hellos_per_turn > 0);
  PEERCACHE_ASSERT(pool.granules > 0 &&
                   (pool.pages == nullptr || pool.pages >= pool.region.data()));
  return verbs::check(options.path);
}

} // namespace

// Functions for the begin, the turns of the loop and the end of a rail server.

result<std::unique_ptr<verbs_rail_server>>
verbs_rail_server::create(std::unique_ptr<verbs::device> device,
                          const verbs_server_options& options, const served_region& pool) {
  if (auto sensible = check(options, pool); !sensible)
    return sensible.error();
  device->own();
  auto plan = chunk_plan::make(pool.region, options.chunk_bytes, device->port().can.region_bytes);
  if (!plan)
    return plan.error();
  auto events = net::event_poll::create();
  if (!events)
    return events.error();
  if (!events->add(device->async_fd(), device_id))
    return {errc::io_failed, "epoll refuses the events of " + device->port().device};
  auto completions = verbs::completion_queue::create(*device, 1, nullptr);
  if (!completions)
    return completions.error();
  return std::unique_ptr<verbs_rail_server>(new verbs_rail_server(
      std::move(device), std::move(*completions), std::move(*events), options, pool, *plan));
}

verbs_rail_server::verbs_rail_server(std::unique_ptr<verbs::device> device,
                                     verbs::completion_queue completions, net::event_poll events,
                                     const verbs_server_options& options, const served_region& pool,
                                     const chunk_plan& plan)
    : device_(std::move(device)), options_(options), cluster_(cluster_digest(options.cluster)),
      pool_(pool), events_(std::move(events)),
      regions_(*device_, plan,
               {options.on_registered, [this] { wake(); }, options.on_not_registered}),
      spans_(*device_, region_chunks_max - regions_.chunks(), options.chunk_bytes,
             verbs::region_use::remote_read, [this] { wake(); }),
      inbox_(options.inbox_max), latest_(std::make_shared<const snapshot>()),
      completions_(std::move(completions)) {
  stats_.regions = regions_.progress();
}

verbs_rail_server::~verbs_rail_server() {
  // The thread that owned the device has ended, so this thread may destroy its verbs objects.
  device_->own();
}

namespace {

/// What tells a reader from other readers: its name, and the host that the kernel says it is on. If
/// the name were enough, any reader could end another reader's sessions.
std::string reader_of(const verbs_arrival& who) {
  return name_of(who.greeting.name) + '\0' + net::peer_address(who.socket.fd());
}

} // namespace

bool verbs_rail_server::poll(clock::time_point now) {
  if (!std::exchange(owns_device_, true))
    device_->own();
  bool moved = take_events();
  moved |= take_regions();
  moved |= admit(now);
  moved |= run_sessions(now);
  if (now >= reap_at_) {
    reap_at_ = now + reap_every;
    reap(now);
  }
  changed_ |= moved;
  if (changed_ && now >= publish_at_)
    publish(now);
  return moved;
}

void verbs_rail_server::wait(clock::duration at_most) {
  if (!ready_.empty() || !collected_.empty() || !inbox_.empty())
    return;
  const bool timers = changed_ || !sessions_.empty();
  const auto sleep = timers ? std::min<clock::duration>(at_most, reap_every) : at_most;
  collected_ = events_.collect(std::max(sleep, clock::duration::zero()));
}

// Functions that make sessions of the connections in the inbox.

void verbs_rail_server::accept(net::stream_socket socket, const verbs_hello& greeting) {
  if (inbox_.push(socket, greeting))
    return wake();
  inbox_overflows_.fetch_add(1, std::memory_order_relaxed);
  send_once(socket, answer_of(verbs_verdict::busy));
}

bool verbs_rail_server::admit(clock::time_point now) {
  auto arrivals = inbox_.take(options_.hellos_per_turn);
  stats_.hellos += arrivals.size();
  for (auto& each : arrivals)
    admit_one(now, std::move(each));
  return !arrivals.empty();
}

verbs_verdict verbs_rail_server::verdict_of(const verbs_hello& greeting) const noexcept {
  const auto verdict = judge(greeting, cluster_, options_.inc,
                             static_cast<std::uint8_t>(device_->port().layer), pool_.service());
  if (verdict == verbs_verdict::accepted && !stats_.serving)
    return verbs_verdict::no_device;
  return verdict;
}

void verbs_rail_server::admit_one(clock::time_point now, verbs_arrival each) {
  if (has_left(each.socket)) {
    ++stats_.left_early;
    return;
  }
  if (const auto verdict = verdict_of(each.greeting); verdict != verbs_verdict::accepted)
    return refuse(each.socket, verdict);
  end_older(reader_of(each), each.greeting.reader);
  if (sessions_.size() >= options_.sessions_max || stats_.half_open >= options_.half_open_max)
    return refuse(each.socket, verbs_verdict::busy);
  auto answer = answer_of(verbs_verdict::accepted);
  auto pair = connect_to(each.greeting, answer);
  if (!pair) {
    ++stats_.queue_pairs_failed;
    stats_.queue_pair_failure = to_string(pair.error());
    // The reader is refused at once, so that it reads over another of its rails or over TCP.
    return refuse(each.socket, verbs_verdict::no_device);
  }
  add(now, std::move(each), std::move(*pair), answer);
}

result<verbs::queue_pair> verbs_rail_server::connect_to(const verbs_hello& greeting,
                                                        verbs_answer& answer) {
  auto pair =
      verbs::queue_pair::create(*device_, completions_, verbs::queue_pair_use::server, 1, 1);
  if (!pair)
    return pair.error();
  auto own = own_end();
  own.queue_pair = pair->number();
  own.psn = verbs::random_psn();
  answer.end = agree(greeting.end, own);
  if (auto done = pair->connect(path_to(greeting.end, answer.end), options_.path); !done)
    return done.error();
  return pair;
}

void verbs_rail_server::add(clock::time_point now, verbs_arrival from, verbs::queue_pair pair,
                            const verbs_answer& answer) {
  const auto id = next_id_++;
  net::keep_alive(from.socket.fd(), options_.keep_alive);
  if (!events_.add(from.socket.fd(), id))
    return;
  ++stats_.verdicts[static_cast<std::size_t>(verbs_verdict::accepted)];
  ++stats_.half_open;
  auto name = reader_of(from);
  auto& of_reader = readers_[name];
  of_reader.inc = from.greeting.reader;
  of_reader.sessions.push_back(id);
  sessions_.emplace(id, entry{std::make_unique<verbs_server_session>(std::move(from.socket),
                                                                     std::move(pair), answer, now),
                              std::move(name)});
  ready_.push_back(id);
}

void verbs_rail_server::refuse(net::stream_socket& socket, verbs_verdict verdict) {
  ++stats_.verdicts[static_cast<std::size_t>(verdict)];
  send_once(socket, answer_of(verdict));
}

verbs_answer verbs_rail_server::answer_of(verbs_verdict verdict) const {
  verbs_answer answer;
  answer.verdict = verdict;
  answer.rail = options_.rail;
  answer.rails = options_.rails;
  if (verdict != verbs_verdict::accepted)
    return answer; // A reader that is not accepted learns neither the incarnation nor an address.
  answer.inc = options_.inc;
  answer.name = padded_name(options_.node);
  answer.table_address = reinterpret_cast<std::uint64_t>(pool_.region.data());
  answer.pages_address = reinterpret_cast<std::uint64_t>(pool_.pages);
  answer.granules = pool_.granules;
  answer.service = pool_.service();
  answer.chunks = answer.service == data_service::pool ? regions_.chunks() : region_chunks_max;
  answer.region_bytes = pool_.region.size();
  return answer;
}

queue_pair_end verbs_rail_server::own_end() const noexcept {
  const auto& port = device_->port();
  queue_pair_end end;
  end.gid = port.gid;
  end.mtu_bytes = port.can.mtu_bytes;
  end.message_bytes = port.can.message_bytes;
  end.lid = port.lid;
  end.initiator_depth = port.can.initiator_depth;
  end.responder_depth = port.can.responder_depth;
  end.layer = static_cast<std::uint8_t>(port.layer);
  return end;
}

// Functions that move sessions on, watch them and end them.

bool verbs_rail_server::take_regions() {
  bool any = regions_.take_registered(announced_);
  if (spans_.has_news()) {
    any = true;
    // Readers keep the chunks that were announced to them, so their sessions end: readers that come
    // again are told of the chunks that are left.
    if (spans_.take(announced_))
      end_all(session_end::memory_removed);
  }
  if (any)
    for (const auto& each : sessions_)
      ready_.push_back(each.first);
  return any;
}

bool verbs_rail_server::take_events() {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_.collect(std::chrono::nanoseconds(0));
  for (const auto& event : events) {
    // `id` is a copy, because the packed epoll_event does not align its member.
    const std::uint64_t id = event.data.u64;
    if (id == device_id) {
      take_device_events();
    } else if (const auto found = sessions_.find(id); found != sessions_.end()) {
      found->second.session->on_events(event.events);
      ready_.push_back(id);
    }
  }
  return !events.empty();
}

void verbs_rail_server::take_device_events() {
  for (auto event = device_->next_event(); !event.name.empty(); event = device_->next_event()) {
    ++stats_.device_events;
    stats_.device_event = event.name;
    if (event.fatal) {
      stats_.serving = false;
      stats_.why_not = event.name;
      end_all(session_end::rail_down);
    } else if (event.port_is_back) {
      stats_.serving = true;
      stats_.why_not.clear();
    }
  }
}

bool verbs_rail_server::run_sessions(clock::time_point now) {
  bool moved = false;
  for (const auto id : std::exchange(ready_, {}))
    moved |= step(id, now);
  return moved;
}

bool verbs_rail_server::step(std::uint64_t id, clock::time_point now) {
  using progress = verbs_server_session::progress;
  const auto found = sessions_.find(id);
  if (found == sessions_.end())
    return false;
  auto& session = *found->second.session;
  const bool was_established = session.established();
  const auto outcome = session.step(now, announced_.chunks());
  PEERCACHE_ASSERT(session.established() || !was_established);
  if (!was_established && session.established()) {
    PEERCACHE_ASSERT(stats_.half_open > 0);
    --stats_.half_open;
    ++stats_.established;
  }
  if (outcome == progress::closed || outcome == progress::violated)
    end(id, outcome == progress::closed ? session_end::closed : session_end::violation);
  return outcome != progress::blocked;
}

void verbs_rail_server::reap(clock::time_point now) {
  std::vector<std::pair<std::uint64_t, session_end>> over;
  auto looks_left = options_.looks_per_turn;
  for (auto& [id, each] : sessions_) {
    if (const auto why = each.session->overdue(now, options_)) {
      over.emplace_back(id, *why);
    } else if (looks_left > 0 && each.session->wants_look(now, options_)) {
      --looks_left;
      if (each.session->look(now, options_))
        over.emplace_back(id, session_end::idle);
    }
  }
  for (const auto& [id, why] : over)
    end(id, why);
}

void verbs_rail_server::end(std::uint64_t id, session_end why) {
  const auto found = sessions_.find(id);
  PEERCACHE_ASSERT(found != sessions_.end());
  ++stats_.ended[static_cast<std::size_t>(why)];
  if (!found->second.session->established())
    --stats_.half_open;
  const auto of_reader = readers_.find(found->second.reader);
  PEERCACHE_ASSERT(of_reader != readers_.end());
  const auto erased = std::erase(of_reader->second.sessions, id);
  PEERCACHE_ASSERT(erased == 1); // A session is in its reader's list, and ends once.
  if (of_reader->second.sessions.empty())
    readers_.erase(of_reader);
  sessions_.erase(found);
  changed_ = true;
}

void verbs_rail_server::end_all(session_end why) {
  stats_.ended[static_cast<std::size_t>(why)] += sessions_.size();
  stats_.half_open = 0;
  readers_.clear();
  sessions_.clear();
}

void verbs_rail_server::end_older(const std::string& name, const incarnation& reader) {
  const auto found = readers_.find(name);
  // A reader without a name ends no older session, since nothing says that the session is its own.
  if (name.empty() || name.front() == '\0' || found == readers_.end() ||
      found->second.inc == reader)
    return;
  for (const auto id : std::vector(found->second.sessions))
    end(id, session_end::replaced);
}

void verbs_rail_server::publish(clock::time_point now) {
  PEERCACHE_ASSERT(stats_.half_open <= sessions_.size() && readers_.size() <= sessions_.size());
  changed_ = false;
  publish_at_ = now + publish_every;
  auto made = std::make_shared<snapshot>();
  made->stats = stats_;
  made->stats.sessions = static_cast<std::uint32_t>(sessions_.size());
  const auto overflows = inbox_overflows_.load(std::memory_order_relaxed);
  made->stats.hellos += overflows;
  made->stats.verdicts[static_cast<std::size_t>(verbs_verdict::busy)] += overflows;
  made->stats.regions = regions_.progress();
  for (const auto& [name, each] : readers_)
    made->readers.push_back({name.substr(0, name.find('\0')), each.inc,
                             static_cast<std::uint32_t>(each.sessions.size())});
  latest_.store(std::move(made));
}

} // namespace peercache::rdma
