#pragma once

#include "actors/link_names.hpp"
#include "link/protocol/pool.hpp"
#include "storage/pool_remains.hpp"

#include <caf/actor_clock.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// How the pool actor takes over the pages of the previous process: a thread compares them with
// their checksums, oldest first, and the actor adopts and publishes them piece by piece while it
// serves.
namespace peercache::actors {

struct pool_adoption_options {
  /// Slots that clients of the previous process may still write to, claimed by the pool.
  std::vector<slot_id> being_filled;
  /// Asks the kernel whether no process that had the pool mapped lives; see storage::pool_memory.
  std::function<bool()> former_clients_are_dead = [] { return true; };
};

/// State of taking over the pages of the previous process. Threads: none; the pool actor
/// serializes.
struct pool_adoption {
  pool_adoption_options options;
  caf::actor_clock::time_point begun{};
  std::uint64_t refused = 0; ///< Pages whose bytes did not match their checksum.
};

/// Runs in a thread: sends the outcome of each piece (compared_page records), and at last an empty
/// message. Returns early, without that last message, when `stop` is set.
void compare_remains(storage::remains_check& remains, const std::atomic<bool>& stop,
                     const std::function<void(std::string compared)>& send);

struct pool_state;
using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// Takes the intact pages of one piece into the pool and tells the directory of them, like pages
/// whose keys have new owners. Frees the slots of the pages with wrong bytes. An empty message says
/// that all pages were compared.
void adopt_pages(pool_pointer self, const std::string& compared);

/// Frees the slots of `being_filled` once no process can write to them.
void free_former_fills(pool_state& state);

} // namespace peercache::actors
