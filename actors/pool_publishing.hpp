#pragma once

#include "actors/pool_actor.hpp"

#include <string>
#include <vector>

// How the pool actor carries the conversation with the directory's shards
// (directory/publisher.hpp).
namespace peercache::actors {

/// Carries out what the publisher orders until there is nothing: at the end of every handler that
/// tells it something.
void carry_out_orders(pool_pointer self);

/// Publishes a put. The answer brings slots for the next put, and comes when `publisher::put` says
/// so.
caf::result<std::string, std::string> commit(pool_pointer self, const std::string& filled,
                                             commit_mode mode, const std::string& next_lengths);

/// A number of the wire; one that nobody knows stores.
commit_mode mode_of(std::uint8_t number) noexcept;

/// The pages of a `commit` or `restore` message.
std::vector<storage::fill> fills_of(const std::string& filled);

/// Withdraws every page; answers when the owners did, or their time is up.
caf::result<bool> withdraw_everything(pool_pointer self);

/// A new view or a new connection.
void adopt_topology(pool_pointer self, const topology_ptr& next);

} // namespace peercache::actors
