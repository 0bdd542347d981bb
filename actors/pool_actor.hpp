#pragma once

#include "actors/mirror_share.hpp"
#include "actors/pool_adoption.hpp"
#include "actors/pool_clear.hpp"
#include "actors/pool_disk.hpp"
#include "actors/protocol/pool.hpp"
#include "actors/protocol/pool_wire.hpp"
#include "actors/protocol/topology.hpp"
#include "actors/publication.hpp"
#include "actors/recent_demand.hpp"
#include "actors/record_repair.hpp"
#include "actors/unpublished_pages.hpp"
#include "common/rate_limit.hpp"
#include "directory/page_location.hpp"
#include "directory/wire.hpp"
#include "storage/page_pool.hpp"

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace peercache::actors {

struct pool_actor_options {
  node_id self;
  incarnation inc;
  std::uint32_t replicas = 2;
  std::chrono::milliseconds beat{50};
  /// Longest wait for one directory owner's answer.
  std::chrono::milliseconds directory_timeout{1000};
  /// Records a second that are published because their keys have new owners; 0: no limit.
  std::uint64_t republish_rate = 0;
  /// Bytes a second for the comparison with the directory's shards; 0: none.
  std::uint64_t repair_rate = 0;
  std::chrono::milliseconds repair_pause = record_repair::options{}.pause;
  std::chrono::milliseconds repair_settling = record_repair::options{}.settling;
  std::uint64_t mirrored_bytes_max = 0; ///< Copies of other hosts' pages.
  storage::epoch_table epochs;          ///< By which pages are too old.
  pool_disk_options disk;
  pool_adoption_options adoption;
};

/// A withdrawal that some directory owner has not heard of yet.
struct pending_withdrawal {
  directory::withdraw_record record;
  std::uint32_t attempts = 0;
};

struct pool_state {
  pool_state() = default;
  pool_actor_options options;
  std::unique_ptr<storage::page_pool> pool;
  topology_ptr cluster;
  unpublished_pages unpublished;
  rate_limit republishing; ///< Records.
  std::uint64_t republished = 0;
  bool leaving = false;   ///< For good: what was withdrawn is not published again.
  bool scrubbing = false; ///< A message to go on with that is on its way.
  struct open_commit {
    std::chrono::steady_clock::time_point since;
    std::weak_ptr<publication> on_way; ///< Expired: all its owners have answered.
  };
  std::deque<open_commit> committing; ///< Those that are not answered among them.
  std::vector<pending_withdrawal> withdrawals;
  pool_disk disk;
  pool_adoption adoption;
  recent_demand demand; ///< Of `reserve`.
  mirror_share mirrors;
  pool_clear clearing;
  std::uint64_t mirrored = 0, mirrored_refused = 0;
  record_repair repair{record_repair::options{}};
  decltype(pool_disk::walk::after) repair_after{}; ///< Of its walk over the disk: the last place.
  std::uint64_t withdrawals_dropped = 0;
  static inline const char* name = "pool";

  static constexpr std::size_t withdrawals_max = 1u << 18;
  static constexpr std::uint32_t withdraw_attempts_max = 4;

  /// Slots for `lengths` (packed u32), `no_slot` where no room can be made.
  std::string reserve(const std::string& lengths);
  void abandon(const std::string& slots);
  /// Reads that no CPU of this node took part in, as a sample: packed used_page.
  void count_uses(const std::string& pages);
  /// Gives pages up and withdraws them. One status byte a key.
  std::string remove(const std::string& keys);
  /// Pages that left memory: the directory is told that they are on disk only, or gone.
  void withdraw(const std::vector<storage::evicted>& pages);
  /// Whatever the directory knows of the key and this process up to this generation is not true any
  /// more.
  void withdraw_all_of(const page_key& key, generation up_to);
  void evict_ahead();
  /// Whether most pages that have to go can be had again: then any of these makes room at once.
  /// Otherwise room has to be made before it is needed, as writing takes time.
  bool mostly_on_disk() const { return 2 * disk.marks.size() >= pool->stats().pages; }
  pool_report report() const;

  directory::page_location location_of(const storage::resident_page& page) const;
  bool joined() const noexcept;
  /// Whether the directory is to know what is here.
  bool publishes() const noexcept { return joined() && !leaving; }
};

using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// The pool of this node. Threads: scheduler. Asks: directory shards, always with a time-out; a
/// shard that does not answer delays an acknowledgement, never an eviction.
pool_actor::behavior_type run_pool(pool_pointer self, const pool_actor_options& options,
                                   std::unique_ptr<storage::page_pool> pool);

} // namespace peercache::actors
