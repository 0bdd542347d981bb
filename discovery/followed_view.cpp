#include "discovery/followed_view.hpp"

#include <algorithm>

namespace peercache::discovery {

namespace {

bool shares_member(const view& a, const view& b) {
  return std::ranges::any_of(a.members,
                             [&](const member& who) { return b.find(who.inc) != nullptr; });
}

} // namespace

bool followed_view::takes_of_own_node(const view& next, const view& followed, time_point now) {
  if (next.term == 0)
    return false;
  own_nodes_ = next;
  told_at_ = now;
  return next.newer_than(followed) || !shares_member(next, followed);
}

const view* followed_view::back_from(const view& followed, bool issuer_may_live,
                                     time_point now) const {
  const bool may_only_lag = own_nodes_.term == 0 || now - told_at_ < go_back_after ||
                            issuer_may_live || own_nodes_.find(followed.issuer) != nullptr;
  return may_only_lag || own_nodes_.stamp() >= followed.stamp() ? nullptr : &own_nodes_;
}

} // namespace peercache::discovery
