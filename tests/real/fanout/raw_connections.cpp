#include "tests/real/fanout/raw_connections.hpp"

#include "common/assert.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <utility>

namespace peercache {
namespace {

constexpr int raw_backlog = 128;
const char bytes[raw_connections::answer_bytes] = {};
static_assert(raw_connections::question_bytes <= raw_connections::answer_bytes);

void send_all(int fd, std::size_t count) {
  const auto sent = ::send(fd, bytes, count, MSG_NOSIGNAL);
  PEERCACHE_ASSERT(sent == static_cast<ssize_t>(count)); // So few bytes always fit the buffer.
}

/// Takes what has arrived; false when nothing has. The other process ends behind this one.
bool take(int fd) {
  std::array<char, 4096> some;
  const auto count = ::recv(fd, some.data(), some.size(), MSG_DONTWAIT);
  PEERCACHE_ASSERT(count != 0);
  return count > 0;
}

net::event_poll make_poll() {
  auto made = net::event_poll::create();
  PEERCACHE_ASSERT(bool(made));
  return std::move(*made);
}

} // namespace

raw_connections::raw_connections(std::size_t count) : events_(make_poll()) {
  const auto listener = net::listen_on("127.0.0.1", 0, raw_backlog);
  PEERCACHE_ASSERT(bool(listener));
  process_ = ::fork();
  PEERCACHE_ASSERT(process_ >= 0);
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(*listener);
  }
  for (std::size_t i = 0; i < count; ++i) {
    auto socket = net::start_connect("127.0.0.1", net::local_port(*listener), {});
    PEERCACHE_ASSERT(bool(socket));
    events_.add(socket->get(), i);
    while (events_.collect(std::chrono::seconds(1)).empty()) {
    }
    PEERCACHE_ASSERT(net::socket_error(socket->get()) == 0);
    events_.remove(socket->get());
    events_.add_reader(socket->get(), i);
    sockets_.push_back(std::move(*socket));
  }
}

raw_connections::~raw_connections() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void raw_connections::ask(std::size_t count) {
  PEERCACHE_ASSERT(count <= sockets_.size());
  for (std::size_t i = 0; i < count; ++i)
    send_all(sockets_[(next_ + i) % sockets_.size()].get(), question_bytes);
  next_ = (next_ + count) % sockets_.size();
  while (count > 0)
    for (const auto& event : events_.collect(std::chrono::seconds(1)))
      count -= take(sockets_[event.data.u64].get()) ? 1 : 0;
}

void raw_connections::serve(const net::unique_fd& listener) {
  auto events = make_poll();
  std::vector<net::unique_fd> open;
  constexpr auto of_listener = ~std::uint64_t{1};
  events.add_reader(listener.get(), of_listener);
  for (;;)
    for (const auto& event : events.collect(std::chrono::seconds(1))) {
      if (event.data.u64 != of_listener) {
        if (take(open[event.data.u64].get()))
          send_all(open[event.data.u64].get(), answer_bytes);
        continue;
      }
      while (auto socket = net::accept_from(listener, {})) {
        events.add_reader(socket.get(), open.size());
        open.push_back(std::move(socket));
      }
    }
}

} // namespace peercache
