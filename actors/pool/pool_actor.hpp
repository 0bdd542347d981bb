#pragma once

#include "actors/directory/lost_pages.hpp"
#include "actors/directory/shared_shard.hpp"
#include "actors/link_names.hpp"
#include "actors/pool/pool_adoption.hpp"
#include "actors/pool/pool_clear.hpp"
#include "actors/pool/pool_disk.hpp"
#include "actors/pool/pool_reserve.hpp"
#include "actors/pool/recent_demand.hpp"
#include "common/limits.hpp"
#include "directory/publisher.hpp"
#include "link/beats.hpp"
#include "link/protocol/pool.hpp"
#include "link/protocol/pool_wire.hpp"
#include "link/protocol/topology.hpp"
#include "storage/page_pool.hpp"
#include "storage/page_survey.hpp"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>

namespace peercache::actors {

/// Options of the pool's actor. Ownership: `shard` is shared with the directory, its door and the
/// look-up server.
struct pool_actor_options {
  node_id self;
  incarnation inc;
  std::uint32_t replicas = limits::directory_replicas_default;
  std::chrono::milliseconds beat{50}; ///< Time between two beats while there is something to do.
  /// Longest wait for one directory owner's answer.
  std::chrono::milliseconds directory_timeout{1000};
  /// Records a second that are published because their keys have new owners; 0: no limit.
  std::uint64_t republish_rate = 0;
  /// Bytes a second for the comparison with the directory's shards; 0: no comparison.
  std::uint64_t repair_rate = 0;
  std::chrono::milliseconds repair_pause = directory::record_repair::options{}.pause;
  std::chrono::milliseconds repair_settling = directory::record_repair::options{}.settling;
  std::uint64_t mirrored_bytes_max = 0; ///< Bytes that mirrors may take.
  storage::epoch_table epochs;          ///< Tells which pages are too old.
  /// The shard of this node, which this actor tells of its pages itself; null: by messages to the
  /// directory.
  std::shared_ptr<shared_shard> shard;
  pool_disk_options disk;
  pool_adoption_options adoption;
};

/// State of the pool's actor, and what it does to the pool without asking other actors.
///
/// Threads: the actor's messages, one at a time. Ownership: owns the pool and its publisher.
/// Invariant: each request in `reserving`, `committing`, `removing` and `leaving` is answered once,
/// and leaves its container then.
struct pool_state {
  pool_state() = default;
  pool_actor_options options;
  std::unique_ptr<storage::page_pool> pool;
  std::unique_ptr<directory::publisher> publishing; ///< Uses `pool`, which lives longer.
  topology_ptr cluster;
  bool scrubbing = false; ///< A `scrub_atom` from the actor to itself is on its way.
  /// Reserves that are not answered yet, in the order in which they came. While there are some
  /// between two messages, a `reserve_atom` from the actor to itself is on its way.
  std::deque<open_reserve> reserving;
  struct open_commit {
    caf::typed_response_promise<std::string, std::string> promise;
    std::string next_lengths;
  };
  std::map<directory::publisher::tag, open_commit> committing; ///< Puts that are not answered.
  struct open_removal {
    caf::typed_response_promise<std::string> promise;
    std::string statuses; ///< One page_status byte per key.
  };
  /// Removals whose records the owners have yet to withdraw.
  std::map<directory::publisher::tag, open_removal> removing;
  std::map<directory::publisher::tag, caf::typed_response_promise<bool>> leaving;
  /// Changes of this node's shard that its directory was asked for and may not have handled yet.
  std::size_t own_shard_requests = 0;
  pool_disk disk;
  pool_adoption adoption;
  recent_demand demand; ///< Bytes that `reserve` was asked for.
  pool_clear clearing;
  lost_pages lost;
  storage::page_survey survey;
  link::beats beats;
  /// Until this time beats come as often as the options say, because there was something to do
  /// lately.
  caf::actor_clock::time_point busy_until{};
  static inline const char* name = "pool";

  /// @pre This is the first call, and there is a pool in `pages`.
  void begin(const pool_actor_options& chosen, std::unique_ptr<storage::page_pool> pages);
  /// Reserves slots for the lengths that have none yet, until the pool has zeroed
  /// `zeroed_bytes_max` bytes since it was made. True: each length has its slot, or `no_slot` where
  /// no room can be made.
  bool reserve(open_reserve& open, std::uint64_t zeroed_bytes_max,
               storage::hold_table::time_point now);
  void abandon(const std::string& slots);
  /// Keeps pages (packed used_page) from eviction from `now` on; without a duration ends the holds
  /// that only this holder has. Returns one hold_outcome byte per page; pages beyond
  /// `limits::batch_pages_max` have none.
  std::string hold(const std::string& pages, storage::holder_tag who,
                   std::chrono::milliseconds duration, storage::hold_table::time_point now);
  /// Counts one-sided reads, in which no CPU of this node took part; `pages` is a sample (packed
  /// used_page).
  void count_uses(const std::string& pages);
  void evict_ahead(lost_pages::time_point now);
  /// Whether most victims of an eviction would be on disk already: then evicting such a page makes
  /// room at once. Otherwise room is made before it is needed, because writing takes time.
  bool mostly_on_disk() const {
    return 2 * publishing->marks().kept_count() >= pool->stats().pages;
  }
  /// What lies in the pool, and what of it is read most.
  page_census census(lost_pages::time_point now);
  /// Whether a beat has nothing to do for now: nothing waits for one, and nothing has happened of
  /// late.
  bool rests(caf::actor_clock::time_point now) const;
  metrics::samples samples() const; ///< The pool's numbers and those of its publisher.
};

using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// Zeroes bytes of slots that have to be zeroed, up to a limit, and goes on by a message of the
/// actor to itself when there are more. `carry_out_orders` calls this.
void scrub(pool_pointer self);

/// Makes the actor's beats frequent, for as long as there is something to do and a second longer.
void stir(pool_pointer self);

/// The pool of this node. Threads: scheduler. Asks: directory shards, always with a time-out; a
/// shard that does not answer delays an acknowledgement, never an eviction.
pool_actor::behavior_type run_pool(pool_pointer self, const pool_actor_options& options,
                                   std::unique_ptr<storage::page_pool> pool);

} // namespace peercache::actors
