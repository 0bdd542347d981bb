#include "tests/handoff/links/link_world.hpp"

#include "net/frame_channel.hpp"
#include "tests/handoff/links/process_sockets.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <tuple>

namespace peercache::handoff::testing {

peer_lost test_worker::loss() const {
  const auto losses = all<peer_lost>();
  EXPECT_EQ(losses.size(), 1u);
  return losses.empty() ? peer_lost{} : losses.front();
}

std::string raw_peer::framed(std::string_view payload) {
  std::string out;
  net::frames::append_frame(out, payload, message_bytes_max);
  return out;
}

std::size_t raw_peer::send(std::string_view bytes) {
  const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

const std::vector<message>& raw_peer::received() {
  char piece[4096];
  for (;;) {
    const auto got = ::recv(socket_.get(), piece, sizeof piece, MSG_DONTWAIT);
    ended_ |= got == 0 || (got < 0 && errno != EAGAIN);
    if (got <= 0)
      break;
    in_.append(piece, static_cast<std::size_t>(got));
  }
  std::string_view rest = in_, payload;
  bool too_long = false;
  while (net::frames::take_frame(rest, payload, too_long, message_bytes_max)) {
    auto read = decode(payload);
    EXPECT_TRUE(read) << "workers say what can be read";
    if (read)
      messages_.push_back(std::move(*read));
  }
  in_.erase(0, in_.size() - rest.size());
  return messages_;
}

test_worker& link_world::start(engine_side side, std::uint64_t process, link_options opts,
                               std::string cluster) {
  auto& made = workers.emplace_back();
  made.self = hello_of(side, process);
  made.self.cluster = std::move(cluster);
  auto links = worker_links::listen(std::move(opts), made.self);
  EXPECT_TRUE(links) << links.error().message;
  made.links = std::move(*links);
  return made;
}

void link_world::run_once() {
  for (auto& worker : workers)
    if (!worker.frozen)
      for (auto& event : worker.links->poll(now))
        worker.seen.push_back(std::move(event));
}

bool link_world::run_until(const std::function<bool()>& condition) {
  const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < give_up_at) {
    run_once();
    if (condition())
      return true;
    for (auto& worker : workers)
      if (!worker.frozen)
        worker.links->wait(now, std::chrono::microseconds(500));
  }
  return false;
}

void link_world::settle() {
  // If no value of this tuple changes in a turn, no worker did anything in it.
  const auto look = [this] {
    std::size_t events = 0, connections = 0;
    for (const auto& worker : workers) {
      events += worker.seen.size();
      connections += worker.links ? worker.links->connections() : 0;
    }
    return std::tuple(look_at_sockets(), events, connections);
  };
  auto before = look();
  EXPECT_TRUE(run_until([&] {
    run_once();
    auto after = look();
    const bool same = after == before;
    before = std::move(after);
    return same && std::get<0>(before).all_arrived;
  })) << "the network does not settle";
}

void link_world::pass(std::chrono::milliseconds time, std::chrono::milliseconds step) {
  for (const auto end = now + time; now < end;) {
    now = std::min(now + step, end);
    settle();
  }
}

std::pair<peer_id, peer_id> link_world::join(test_worker& from, test_worker& to) {
  const auto before = to.joined();
  auto peer = from.links->connect(to.address(), std::nullopt, now);
  EXPECT_TRUE(peer) << peer.error().message;
  EXPECT_TRUE(run_until([&] {
    const auto joined = from.all<peer_joined>();
    return to.joined() > before && !joined.empty() && joined.back().peer == *peer;
  }));
  return {*peer, to.all<peer_joined>().back().peer};
}

raw_peer link_world::dial(const test_worker& to) {
  auto socket = net::start_connect("127.0.0.1", to.links->port(), {});
  EXPECT_TRUE(socket) << socket.error().message;
  pollfd connecting{socket->get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&connecting, 1, 5000), 1);
  return raw_peer(std::move(*socket));
}

raw_peer link_world::dial_and_join(test_worker& to, std::uint64_t process) {
  auto peer = dial(to);
  const auto side =
      to.self.side == engine_side::prefill ? engine_side::decode : engine_side::prefill;
  peer.send(raw_peer::framed(hello_of(side, process)));
  EXPECT_TRUE(run_until([&] { return !peer.received().empty(); }));
  EXPECT_EQ(peer.received().front(), message(to.self));
  return peer;
}

offer link_world::offer_of(std::uint64_t room) {
  offer sent{{room}, {room + 1}, {{5}, {2}, {}}, {}};
  sent.pages.pages = {1, 2, static_cast<std::uint32_t>(room)};
  return sent;
}

} // namespace peercache::handoff::testing
