#pragma once

#include "client/members/member_answers.hpp"
#include "client/members/promote_plan.hpp"
#include "client/values/pages.hpp"
#include "link/protocol/topology.hpp"

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Asks a member, whose answer `member_request::take` gets.
using member_asker = std::function<void(const incarnation&, member_request)>;

/// Asks the nodes, best effort, to bring these pages into their pools if they have nothing better
/// to do.
void warm(const promote_plan& pages, const link::topology& cluster, const member_asker& ask);

/// Asks nodes to bring pages into their pools, all nodes at once. The caller reads other pages
/// while the nodes do so, and then each page whose question is answered. The plan
/// (client/members/promote_plan.hpp) makes the questions and interprets the answers. Threads: one
/// object per call. Bound: `take_next` returns by the deadline.
class promote_call {
public:
  promote_call(member_channels& members, close_signal& closing, const link::topology& cluster,
               promote_plan pages, deadline until);

  /// Waits until questions have ended, and returns one place for each page of these: without a
  /// location where there was no answer. When no question is open, the deadline has passed or the
  /// client is closed, returns the places of all other pages (nodes that were not asked, or are
  /// late), without a location; answers that come later change nothing. Empty: each page has had
  /// its place.
  std::vector<promote_plan::place> take_next();

private:
  /// Adds the places of one share's pages, unless they were returned before.
  void add_places(std::size_t share, std::string_view answer,
                  std::vector<promote_plan::place>& places);

  const promote_plan pages_;
  const deadline until_;
  member_answers answers_;
  std::vector<std::size_t> share_of_; ///< The share of each question in `answers_`.
  std::vector<bool> placed_;          ///< Whether the pages of a share have had their places.
};

} // namespace peercache::client
