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

/// One worker of a test, and all that it was told.
struct test_worker {
  hello self;
  std::unique_ptr<worker_links> links;
  std::vector<link_event> seen;
  bool frozen = false; ///< Whether the world leaves this worker out when it runs the workers.

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
  /// The only loss that was reported; the test fails when there is another number of them.
  peer_lost loss() const;
};

/// A socket of the test's own at one end of a connection, which says whatever the test wants.
class raw_peer {
public:
  raw_peer() = default;
  explicit raw_peer(net::unique_fd socket) : socket_(std::move(socket)) {}

  static std::string framed(std::string_view payload);
  static std::string framed(const message& what) { return framed(encode(what)); }

  /// Sends what the socket takes; returns how much that was.
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

/// Workers in the test's own thread, connected over loopback. The clock moves by hand.
class link_world : public ::testing::Test {
protected:
  using time_point = worker_links::time_point;

  test_worker& start(engine_side side, std::uint64_t process, link_options opts = {},
                     std::string cluster = "test");

  /// Runs all workers that are not frozen until the condition holds; false after 30 seconds.
  bool run_until(const std::function<bool()>& condition);
  /// Runs the workers until all that was sent has arrived and nothing further happens; the test
  /// fails when that does not come about.
  void settle();
  /// Moves the clock by `time`, in steps in which all workers run.
  void pass(std::chrono::milliseconds time, std::chrono::milliseconds step);

  /// Connects two workers; returns the id that each has for the other.
  std::pair<peer_id, peer_id> join(test_worker& from, test_worker& to);
  /// A connection to the worker, on which nothing was said.
  raw_peer dial(const test_worker& to);
  /// A connection to the worker that has said the other side's hello, and was answered.
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
