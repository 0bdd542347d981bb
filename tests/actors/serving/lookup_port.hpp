#pragma once

#include "actors/directory/directory_actor.hpp"
#include "actors/link_names.hpp"
#include "link/protocol/gateway.hpp"
#include "link/system_config.hpp"
#include "net/frame_channel.hpp"
#include "net/socket.hpp"
#include "tests/support/served_lookups.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace peercache::actors::lookup_ports {

namespace frames = net::frames;
using std::chrono::steady_clock;

using text_promise = caf::typed_response_promise<std::string>;

// The actors below get what they keep as an argument: to start a function without arguments CAF
// 0.17 binds a reference to a null pointer, which a sanitizer reports.

/// A gateway that leaves removals unanswered until the test tells it to answer.
inline caf::behavior run_slow_gateway(caf::event_based_actor* self,
                                      const std::shared_ptr<std::vector<text_promise>>& open) {
  return {[](view_atom, const std::string& known) { return "a view" + known; },
          [self, open](remove_atom, const std::string&, from_here) {
            open->push_back(self->make_response_promise<std::string>());
            return open->back();
          },
          [open](beat_atom) {
            for (auto& promise : *open)
              promise.deliver(std::string("removed"));
          }};
}

/// A look-up server with a directory shard, and plain sockets that connect to the server.
class lookup_server_test : public testing::Test {
protected:
  system_config config{2};
  caf::actor_system system{config};
  std::shared_ptr<shared_shard> shard = make_shard({});
  directory_actor directory = system.spawn(run_directory, directory_options{}, shard);
  /// A gateway that leaves removals unanswered until the test tells it to answer.
  caf::actor gateway =
      system.spawn(run_slow_gateway, std::make_shared<std::vector<text_promise>>());
  incarnation inc{3, 4};
  std::uint16_t port = 0;
  std::unique_ptr<served_lookups> serving;

  void SetUp() override { serve(directory, caf::actor_cast<gateway_actor>(gateway)); }

  /// Replaces the server by one that asks this directory and this gateway.
  void serve(const directory_actor& of_keys, const gateway_actor& of_node) {
    serving = std::make_unique<served_lookups>(system, "test", inc, of_keys, of_node, shard);
    port = serving->port();
  }

  ~lookup_server_test() override {
    serving.reset();
    caf::anon_send_exit(directory, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(gateway, caf::exit_reason::user_shutdown);
    system.await_actors_before_shutdown(false);
  }

  std::string greeting() const { return frames::greeting(wire_version, "test", inc); }

  /// Sends a question that is not a look-up, on a connection for such questions.
  void ask(int fd, std::uint32_t number, member_question kind, const std::string& body) const {
    std::string frame;
    frames::append_frame(frame, encode_question({number, kind, body}));
    EXPECT_EQ(::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
  }
  net::unique_fd connect_and_greet() const {
    auto socket = connect(65536);
    const auto hello = frames::greeting(wire_version, "test", inc, member_question_magic);
    EXPECT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(hello.size()));
    return socket;
  }
  /// Waits for the next answer. Returns the number of its question and its body; nothing when the
  /// connection ends first.
  static std::optional<std::pair<std::uint32_t, std::string>> answer(int fd) {
    std::string bytes;
    for (std::size_t wanted = frames::length_bytes; bytes.size() < wanted;) {
      char some;
      if (::recv(fd, &some, 1, 0) != 1)
        return std::nullopt;
      bytes.push_back(some);
      if (std::uint32_t length = 0; bytes.size() == sizeof length) {
        std::memcpy(&length, bytes.data(), sizeof length);
        wanted += length;
      }
    }
    const auto read = read_answer(std::string_view(bytes).substr(frames::length_bytes));
    return std::pair{read->number, std::string(read->body)};
  }

  net::unique_fd connect(int receive_buffer_bytes) const {
    net::unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    // A small receive buffer makes the answers pile up in the server's process and not in the
    // kernel.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof receive_buffer_bytes);
    EXPECT_EQ(dial(socket.get()), 0);
    return socket;
  }
  /// Connects a socket to the server. Returns what connect(2) does.
  int dial(int socket) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }

  /// Sends without reading. Returns how many bytes went out before the server closed the connection
  /// or a time-out passed.
  static std::size_t send_without_reading(int fd, const std::string& bytes) {
    auto until = steady_clock::now() + std::chrono::seconds(20);
    std::size_t sent = 0;
    while (sent < bytes.size() && steady_clock::now() < until) {
      auto done = ::send(fd, bytes.data() + sent, std::min<std::size_t>(bytes.size() - sent, 65536),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
      if (done >= 0) {
        sent += static_cast<std::size_t>(done);
      } else if (errno == EAGAIN) {
        pollfd writable{fd, POLLOUT, 0};
        ::poll(&writable, 1, 1000);
      } else {
        break;
      }
    }
    return sent;
  }
};

/// Whether the other side closes the connection within 10 s.
inline bool is_closed_by_peer(int fd) {
  pollfd closed{fd, POLLRDHUP, 0};
  return ::poll(&closed, 1, 10'000) == 1;
}

using waiting_look_ups = std::vector<std::pair<text_promise, std::string>>;
/// A directory that keeps look-ups until it is told to answer them, each with its own keys.
inline caf::behavior run_late_directory(caf::event_based_actor* self,
                                        const std::shared_ptr<waiting_look_ups>& open) {
  return {[self, open](lookup_atom, const std::string& keys) {
            open->emplace_back(self->make_response_promise<std::string>(), keys);
            return open->back().first;
          },
          [open](beat_atom) {
            for (auto& [promise, keys] : std::exchange(*open, {}))
              promise.deliver(keys);
          },
          [open](stats_atom) { return static_cast<std::uint64_t>(open->size()); }};
}

/// Waits for the answer to the channel's look-up.
inline std::string answer_of(net::frame_channel& channel) {
  const auto until = steady_clock::now() + std::chrono::seconds(10);
  auto state = channel.advance();
  while (state == net::frame_channel::state::asking && steady_clock::now() < until) {
    pollfd ready{channel.fd(), channel.events(), 0};
    ::poll(&ready, 1, 1000);
    state = channel.advance();
  }
  EXPECT_EQ(state, net::frame_channel::state::answered);
  return std::string(channel.answer());
}

} // namespace peercache::actors::lookup_ports
