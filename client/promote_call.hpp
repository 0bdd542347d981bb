#pragma once

#include "client/promote_plan.hpp"
#include "client/session.hpp"
#include "link/protocol/disk_wire.hpp"

#include <optional>
#include <vector>

namespace peercache::client {

/// Asks the nodes, best effort, to bring these pages into their pools if they have nothing better
/// to do.
void warm(const promote_plan& pages, const link::topology& cluster);

/// Asks the nodes to bring pages into their pools, all at once; the caller reads other pages
/// meanwhile. The plan (client/promote_plan.hpp) makes the questions and interprets the answers.
/// Threads: one object per call. Bound: `take` returns by the deadline.
class promote_call {
public:
  promote_call(session& with, const link::topology& cluster, promote_plan pages, deadline until);

  /// Waits for the answers; returns one place for each page.
  std::vector<promote_plan::place> take();

private:
  using pending_answer = decltype(std::declval<caf::blocking_actor&>().request(
      std::declval<link::gateway_actor>(), std::chrono::milliseconds{}, link::promote_atom_v,
      std::string{}, std::uint32_t{}));

  session::caller self_;
  const promote_plan pages_;
  /// The answer to each share of the plan; none: not asked.
  std::vector<std::optional<pending_answer>> answers_;
};

} // namespace peercache::client
