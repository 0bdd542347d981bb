#pragma once

#include "common/published.hpp"

#include <caf/fwd.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace peercache::actors {

/// Watches the actors and threads of a node: one that ends unasked is a failure of the node, which
/// may look alive and answer nobody. The first failure stays.
///
/// Threads: `watch` and `expect_ends` belong to the node's owner; any thread may call the other
/// functions. Lifetime: an actor that is watched may outlive this object.
class supervision {
public:
  /// Whether an actor or a thread may end by itself, its work done.
  enum class kind : bool { lasting, passing };

  /// Notes a failure when the actor ends before `expect_ends`, in words that begin with `name`. A
  /// `passing` actor fails only by an error.
  void watch(const caf::strong_actor_ptr& actor, std::string name, kind how = kind::lasting);
  /// Call before actors are asked to end: from then on an end is not a failure.
  void expect_ends() noexcept { state_->ends_expected.store(true); }
  /// Registers `act`, which is called once, in any thread, after a failure; `act` must not block.
  /// Look at `failure` after this call: a failure from before it does not call `act`.
  void when_failed(std::function<void()> act) { state_->act.store(std::move(act)); }
  /// Why the node can no longer do its work, in words; empty while it is well.
  std::string failure() const { return *state_->failure.load(); }

private:
  struct state {
    std::atomic<bool> ends_expected{false};
    std::atomic<bool> failed{false};
    published<std::string> failure{std::string{}};
    published<std::function<void()>> act{nullptr};
  };
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace peercache::actors
