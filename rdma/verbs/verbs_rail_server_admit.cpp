#include "common/assert.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"

#include <cerrno>
#include <sys/socket.h>
#include <utility>

// Functions of a rail server that make sessions of the connections in its inbox.

namespace peercache::rdma {

namespace {

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

/// What tells a reader from other readers: its name, and the host that the kernel says it is on. If
/// the name were enough, any reader could end another reader's sessions.
std::string reader_of(const verbs_arrival& who) {
  return name_of(who.greeting.name) + '\0' + net::peer_address(who.socket.fd());
}

} // namespace

void verbs_rail_server::accept(net::stream_socket socket, const verbs_hello& greeting,
                               clock::time_point came_at) {
  verbs_arrival arrival{std::move(socket), greeting, came_at};
  if (inbox_.push(arrival))
    return wake();
  inbox_overflows_.fetch_add(1, std::memory_order_relaxed);
  send_once(arrival.socket, answer_of(verbs_verdict::busy));
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
  if (sessions_.size() + retired_.size() >= options_.sessions_max ||
      stats_.half_open >= options_.half_open_max)
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
      verbs::queue_pair::create(*device_, completions_.queue(), verbs::queue_pair_use::server,
                                options_.windows ? session_windows::depth : 1, 1);
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
  const verbs_server_session::served what{options_.windows, announced_.size(), from.came_at};
  sessions_.emplace(
      id, entry{std::make_unique<verbs_server_session>(std::move(from.socket), std::move(pair),
                                                       answer, what, options_, now),
                std::move(name)});
  if (options_.windows)
    waiting_.insert(id);
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

} // namespace peercache::rdma
