#pragma once

#include "actors/membership/membership_actor.hpp"

#include <functional>

// A node that asks to come in has to answer at the address that it advertises: other nodes will
// look for it there, and a member that nobody reaches could become a master whose vote is missed
// for ever.
namespace peercache::actors {

/// Takes a join whose sender was reached, or needs no check.
using join_handler = std::function<void(const discovery::join_packet&)>;

/// Calls `pass_on` with the join, in this actor, once its sender has answered a hello at its
/// address, as the incarnation that it says it is. A join of this process, or of a member at its
/// known address, is passed on at once. A sender that was not reached is told why, if this node is
/// in a view and the join came directly. Joins beyond the limits are dropped. Call while the packet
/// is handled: refusals go to its sender.
void check_join(membership_actor::stateful_pointer<membership_state> self,
                const discovery::join_packet& join, const join_handler& pass_on);

} // namespace peercache::actors
