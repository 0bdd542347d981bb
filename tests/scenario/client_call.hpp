#pragma once

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace peercache::scenario {

/// Time from the start of a client's call to its deadline.
constexpr auto call_limit = std::chrono::milliseconds(1000);

/// A running call of a client: a chain of events in simulated time, which own the call by shared
/// pointers.
template <class Call>
class client_call : public std::enable_shared_from_this<Call> {
protected:
  client_call(cluster& in, process& by, time_point until) : cluster_(in), by_(by), until_(until) {}
  client_call(cluster& in, process& by) : client_call(in, by, in.time().now() + call_limit) {}

  duration left() const { return until_ - cluster_.time().now(); }
  /// Asks a process by `cluster::ask`; the pending question keeps the call alive.
  template <class Done, class Serve, class... Arguments>
  void ask(const incarnation& whom, duration timeout, Done done, Serve serve,
           Arguments... arguments) {
    cluster_.ask(
        by_, whom, timeout,
        [self = this->shared_from_this(), done](const auto* said) { done(said); }, serve,
        std::move(arguments)...);
  }

  cluster& cluster_;
  process& by_;
  const time_point until_;
};

} // namespace peercache::scenario
