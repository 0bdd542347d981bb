#pragma once

#include "actors/pool/pool_actor.hpp"

#include <string>
#include <vector>

// How the pool actor carries the conversation with the directory's shards
// (directory/publisher.hpp).
namespace peercache::actors {

/// Carries out the publisher's orders until there are none. Call at the end of every handler that
/// tells the publisher something.
void carry_out_orders(pool_pointer self);

/// Publishes a put. The answer comes when `publisher::put` says so, and brings slots for the next
/// put.
caf::result<std::string, std::string> commit(pool_pointer self, const std::string& filled,
                                             commit_mode mode, const std::string& next_lengths);

/// Translates the number of a commit mode from the wire; an unknown number means `store`.
commit_mode mode_of(std::uint8_t number) noexcept;

/// Returns the pages of a `commit` or `restore` message.
std::vector<storage::fill> fills_of(const std::string& filled);

/// Withdraws every page of this node from the directory; answers when the owners have answered, or
/// their time has passed.
caf::result<bool> withdraw_everything(pool_pointer self);

/// Passes a new view, or a new connection to a member, to the publisher.
void adopt_topology(pool_pointer self, const topology_ptr& next);

} // namespace peercache::actors
