#pragma once

#include "client/member_answers.hpp"
#include "client/promote_plan.hpp"
#include "client/session.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace peercache::client {

/// Asks a member, whose answer `member_request::take` gets.
using member_asker = std::function<void(const incarnation&, member_request)>;

/// Asks the nodes, best effort, to bring these pages into their pools if they have nothing better
/// to do.
void warm(const promote_plan& pages, const link::topology& cluster, const member_asker& ask);

/// Asks the nodes to bring pages into their pools, all at once; the caller reads other pages
/// meanwhile. The plan (client/promote_plan.hpp) makes the questions and interprets the answers.
/// Threads: one object per call. Bound: `take` returns by the deadline.
class promote_call {
public:
  promote_call(session& with, const link::topology& cluster, promote_plan pages, deadline until);

  /// Waits for the answers; returns one place for each page.
  std::vector<promote_plan::place> take();

private:
  const promote_plan pages_;
  const deadline until_;
  member_answers answers_;
  /// The index in `answers_` of the question for each share of the plan; none: not asked.
  std::vector<std::optional<std::size_t>> asked_;
};

} // namespace peercache::client
