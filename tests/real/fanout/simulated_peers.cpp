#include "tests/real/fanout/simulated_peers.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"
#include "link/member_question.hpp"
#include "link/protocol/gateway.hpp"
#include "net/frame_channel.hpp"

#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace peercache {
namespace {

using std::chrono::steady_clock;

constexpr int backlog = 64;

/// Says of every key that the first peer has its page.
std::optional<result<std::string>> found_everywhere(std::string_view keys) {
  directory::page_location place;
  place.node = simulated_peers::id_of(0);
  place.holder = simulated_peers::inc_of(0);
  place.gen = {2};
  place.length_bytes = 1u << 20;
  const std::vector places{place};
  std::string said;
  directory::lookup_reader asked{keys};
  for (page_key key; asked.next(key);)
    directory::append_answer(said, places);
  return said;
}

} // namespace

simulated_peers::simulated_peers(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto listener = net::listen_on("127.0.0.1", 0, backlog);
    PEERCACHE_ASSERT(bool(listener));
    const auto port = net::local_port(*listener);
    auto socket = net::datagram_socket::bind("127.0.0.1", port);
    PEERCACHE_ASSERT(bool(socket));
    const auto greeting = [&](std::uint32_t magic) {
      return net::frames::greeting(link::wire_version, "fanout", inc_of(i), magic);
    };
    peers_.push_back(std::unique_ptr<peer>(
        new peer{std::move(*listener),
                 actors::lookup_datagrams(std::move(*socket), inc_of(i),
                                          std::make_shared<actors::served_datagrams>()),
                 actors::lookup_connections(greeting(net::frames::magic),
                                            greeting(link::member_question_magic))}));
    ports_.push_back(port);
  }
  process_ = ::fork();
  PEERCACHE_ASSERT(process_ >= 0);
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve();
  }
  peers_.clear();
}

simulated_peers::~simulated_peers() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

double simulated_peers::cpu_us() const noexcept {
  clockid_t clock{};
  timespec spent{};
  ::clock_getcpuclockid(process_, &clock);
  ::clock_gettime(clock, &spent);
  return static_cast<double>(spent.tv_sec) * 1e6 + static_cast<double>(spent.tv_nsec) / 1e3;
}

/// The ids of events: of peer i's listener 2 i, of its datagrams 2 i + 1, then connections.
void simulated_peers::serve() {
  auto made = net::event_poll::create();
  PEERCACHE_ASSERT(bool(made));
  events_ = std::make_unique<net::event_poll>(std::move(*made));
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    events_->add_reader(peers_[i]->listener.get(), 2 * i);
    events_->add_reader(peers_[i]->datagrams.fd(), 2 * i + 1);
  }
  last_id_ = 2 * peers_.size();
  for (;;)
    for (const auto& event : events_->collect(std::chrono::seconds(1)))
      serve_event(event.data.u64);
}

void simulated_peers::serve_event(std::uint64_t id) {
  const auto now = steady_clock::now();
  if (id >= 2 * peers_.size()) {
    const auto found = open_.find(id);
    if (found != open_.end() && !serve_connection(id, found->second)) {
      auto& of = *peers_[found->second.of];
      of.connections.remove(id);
      of.datagrams.forget(id);
      open_.erase(found);
    }
  } else if (id % 2 == 1) {
    while (peers_[id / 2]->datagrams.serve(found_everywhere, now)) {
    }
  } else {
    accept(id / 2);
  }
}

void simulated_peers::accept(std::size_t at) {
  while (auto socket = net::accept_from(peers_[at]->listener, {})) {
    const auto id = ++last_id_;
    peers_[at]->connections.add(id, steady_clock::now());
    events_->add_reader(socket.get(), id);
    open_[id] = {std::move(socket), at};
  }
}

std::string simulated_peers::answer_to(std::size_t at, std::uint64_t id,
                                       const std::string& question) {
  auto& asked = *peers_[at];
  std::string frame;
  if (!asked.connections.asks_member(id)) {
    const auto said = found_everywhere(question);
    net::frames::append_frame(frame, **said);
    asked.connections.answered(id, question.size(), frame.size());
  } else if (const auto read = link::read_question(question)) {
    const auto said =
        read->kind == link::member_question::hello
            ? asked.datagrams.pass_of(id, net::peer_address(open_.at(id).socket.get()))
            : "";
    net::frames::append_frame(frame, link::encode_answer(read->number, said));
    asked.connections.member_answered(id, read->kind, read->body.size(), frame.size());
  }
  return frame;
}

bool simulated_peers::serve_connection(std::uint64_t id, connection& from) {
  char some[4096];
  for (;;) {
    const auto count = ::recv(from.socket.get(), some, sizeof some, MSG_DONTWAIT);
    if (count <= 0)
      return count < 0 && errno == EAGAIN;
    std::vector<std::string> questions;
    auto& of = *peers_[from.of];
    if (!of.connections.receive(id, {some, static_cast<std::size_t>(count)}, steady_clock::now(),
                                questions))
      return false;
    std::string out;
    for (const auto& question : questions)
      out += answer_to(from.of, id, question);
    if (!out.empty() &&
        ::send(from.socket.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      return false;
    of.connections.taken(id, out.size(), steady_clock::now());
  }
}

} // namespace peercache
