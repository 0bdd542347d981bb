#include "actors/gateway/gateway_drain.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

/// Writes to disk the pages that are only in memory, within this time, and then calls `done` with
/// the number of those that are still in memory only; nothing when the pool does not say it. The
/// node goes on serving pages until then.
void write_out_pages(gateway_pointer self, std::chrono::milliseconds within,
                     const std::function<void(std::optional<std::uint64_t>)>& done) {
  PEERCACHE_ASSERT(within.count() >= 0); // A negative duration would become weeks in the message.
  const auto begun = self->clock().now();
  self->request(self->state.options.pool, caf::infinite, write_atom_v,
                static_cast<std::uint32_t>(within.count()), from_here{})
      .then(
          [self, begun, done](std::uint64_t written, std::uint64_t left) {
            const auto took =
                std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now() - begun);
            if (written != 0 || left != 0)
              log::log(
                  left == 0 ? log::level::info : log::level::warn,
                  "disk tier: {} pages written before the node drains, in {} ms; {} are left{}",
                  written, took.count(), left,
                  left == 0 ? ""
                            : " and in memory only: a longer drain.timeout, a faster disk or a "
                              "larger disk.size keeps them");
            done(left);
          },
          [done](const caf::error&) { done(std::nullopt); });
}

/// Gives the shard's records to the nodes that will own them, within this time; `done` gets what
/// that came to.
void hand_over_shard(gateway_pointer self, bool leaving, std::chrono::milliseconds within,
                     const std::function<void(drain_report)>& done) {
  PEERCACHE_ASSERT(within.count() >= 0);
  self->request(self->state.options.directory, within + 1s, give_atom_v, leaving,
                static_cast<std::uint32_t>(within.count()), from_here{})
      .then([done](drain_report& came_to) { done(std::move(came_to)); },
            [done](const caf::error&) {
              drain_report nothing_said;
              nothing_said.uncertain = true;
              done(std::move(nothing_said));
            });
}

/// Withdraws the node's pages from the directory, then takes the node out of the cluster.
void withdraw_and_leave(gateway_pointer self, const std::function<void()>& finish) {
  PEERCACHE_ASSERT(self->state.leaving); // A node that drains without leaving keeps its pages.
  self->state.withdraws = true;
  self->request(self->state.options.pool, caf::infinite, withdraw_atom_v, from_here{})
      .then(
          [self, finish](bool) {
            self->request(self->state.options.membership, self->state.options.vote_timeout,
                          leave_atom_v, from_here{})
                .then([finish](bool) { finish(); }, [finish](caf::error&) { finish(); });
          },
          [finish](caf::error&) { finish(); });
}

} // namespace

caf::result<bool> leave(gateway_pointer self) {
  auto& state = self->state;
  state.leaving = true;
  state.tell_readiness();
  log::info("gateway: draining");
  auto promise = self->make_response_promise<bool>();
  auto finish = [promise]() mutable { promise.deliver(true); };
  // The disk gets seven tenths of the drain's time. The hand-over, which is quick as a rule, may
  // last until nine tenths have passed; the last tenth is for withdrawing and leaving.
  const auto total = state.options.drain_timeout;
  const auto until = self->clock().now() + total * 9 / 10;
  write_out_pages(self, total * 7 / 10, [self, until, finish](std::optional<std::uint64_t>) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - self->clock().now());
    const auto within = std::clamp(left, 0ms, self->state.options.hand_over_timeout);
    hand_over_shard(self, true, within,
                    [self, finish](const drain_report&) { withdraw_and_leave(self, finish); });
  });
  return promise;
}

caf::result<drain_report> set_drained(gateway_pointer self, bool drained) {
  auto& state = self->state;
  if (state.leaving)
    return refused("it is leaving the cluster");
  state.drained = drained;
  state.tell_readiness();
  log::info("gateway: {}", drained ? "drained by an operator" : "takes part again");
  auto promise = self->make_response_promise<drain_report>();
  auto announce = [self, promise, drained](drain_report came_to) mutable {
    if (self->state.drained != drained || self->state.leaving) {
      promise.deliver(refused("another request took this one back"));
      return;
    }
    self->request(self->state.options.membership, 2s, drain_atom_v, drained, from_here{})
        .then([promise, came_to](bool) mutable { promise.deliver(std::move(came_to)); },
              // The membership may do it later, and what the drain came to has to be told.
              [promise, came_to](const caf::error&) mutable {
                came_to.uncertain = true;
                promise.deliver(std::move(came_to));
              });
  };
  if (!drained) {
    announce({});
    return promise;
  }
  write_out_pages(
      self, state.options.drain_timeout,
      [self, announce](std::optional<std::uint64_t> unwritten) mutable {
        if (!self->state.drained) // An operator took the drain back while pages were written.
          return announce({});
        hand_over_shard(self, false, self->state.options.hand_over_timeout,
                        [announce, unwritten](drain_report came_to) mutable {
                          came_to.unwritten = unwritten.value_or(0);
                          came_to.uncertain = came_to.uncertain || !unwritten;
                          announce(std::move(came_to));
                        });
      });
  return promise;
}

} // namespace peercache::actors
