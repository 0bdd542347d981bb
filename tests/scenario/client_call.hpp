#pragma once

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace peercache::scenario {

/// Time that a call of a client has.
constexpr auto call_limit = std::chrono::milliseconds(1000);

/// A call of a client on its way, in events of the simulated time. It lives as long as some event
/// holds it.
template <class Call>
class client_call : public std::enable_shared_from_this<Call> {
protected:
  client_call(cluster& in, process& by, time_point until) : cluster_(in), by_(by), until_(until) {}
  client_call(cluster& in, process& by) : client_call(in, by, in.time().now() + call_limit) {}

  duration left() const { return until_ - cluster_.time().now(); }
  /// Asks a process for the call (cluster::ask).
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
