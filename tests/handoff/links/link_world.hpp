#pragma once

#include "handoff/links/worker_links.hpp"

#include <deque>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff::testing {

/// A worker of a test, with all events that its links have reported.
struct test_worker {
  hello self;
  std::unique_ptr<worker_links> links;
  std::vector<link_event> seen;
  bool frozen = false; ///< Whether the methods of `link_world` that run workers leave this one out.

  worker_address address() const { return {"127.0.0.1", links->port()}; }

  template <class Event>
  std::vector<Event> all() const {
    std::vector<Event> found;
    for (const auto& event : seen)
      if (const auto* wanted = std::get_if<Event>(&event))
        found.push_back(*wanted);
    return found;
  }
  std::size_t joined() const { return all<peer_joined>().size(); }
  std::size_t lost() const { return all<peer_lost>().size(); }
  /// Returns the loss that was reported; fails the test when there is not exactly one.
  peer_lost loss() const;
};

/// One end of a connection as a plain socket, by which a test sends whatever bytes it wants.
class raw_peer {
public:
  raw_peer() = default;
  explicit raw_peer(net::unique_fd socket) : socket_(std::move(socket)) {}

  static std::string framed(std::string_view payload);
  static std::string framed(const message& what) { return framed(encode(what)); }

  /// Sends as many of these bytes as the socket accepts. Returns their number.
  std::size_t send(std::string_view bytes);
  /// Receives the bytes that have arrived, and returns all messages that have come so far.
  const std::vector<message>& received();
  bool ended() const noexcept { return ended_; }
  /// Ends the connection as the kernel does for a process that dies.
  void close() noexcept { socket_.reset(); }

private:
  net::unique_fd socket_;
  std::string in_;
  std::vector<message> messages_;
  bool ended_ = false;
};

/// Workers in the test's own thread, connected over loopback. Time passes only by `pass`.
class link_world : public ::testing::Test {
protected:
  using time_point = worker_links::time_point;

  test_worker& start(engine_side side, std::uint64_t process, link_options opts = {},
                     std::string cluster = "test");

  /// Runs all workers that are not frozen until the condition holds. Returns false when it does not
  /// hold after 30 seconds.
  bool run_until(const std::function<bool()>& condition);
  /// Runs the workers until all sent bytes have arrived and nothing further happens; fails the test
  /// when that takes too long.
  void settle();
  /// Moves the clock forward by `time`; runs the workers after each `step`.
  void pass(std::chrono::milliseconds time, std::chrono::milliseconds step);

  /// Connects two workers. Returns the ids that they have for each other.
  std::pair<peer_id, peer_id> join(test_worker& from, test_worker& to);
  /// Returns a connection to the worker, on which nothing was sent yet.
  raw_peer dial(const test_worker& to);
  /// Returns a connection to the worker on which the test has sent a hello, as the process
  /// `process`, and has got the answer.
  raw_peer dial_and_join(test_worker& to, std::uint64_t process);

  static hello hello_of(engine_side side, std::uint64_t process) {
    return {side, {process, 1}, {7}, 4711, 0, "test"};
  }
  static handoff::join join_of(std::uint64_t room) { return {{room}, {room + 1}, 0, 8, false}; }
  static offer offer_of(std::uint64_t room);

  /// Runs each worker that is not frozen once, without waiting.
  void run_once();

  time_point now = time_point{} + std::chrono::hours(1);
  std::deque<test_worker> workers;
};

} // namespace peercache::handoff::testing
