#pragma once

#include "actors/directory/lost_pages.hpp"
#include "actors/directory/shared_shard.hpp"
#include "actors/link_names.hpp"
#include "common/limits.hpp"
#include "directory/member_shard.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/topology.hpp"
#include "storage/epoch_table.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

namespace peercache::actors {

struct directory_options {
  node_id self;
  std::uint32_t replicas = limits::directory_replicas_default;
  std::uint64_t records_max = 64u << 20; ///< Records beyond this number are refused.
  int file = -1; ///< File in which the shard's memory lies (`directory::shard_memory`).
  /// Time for which the shard keeps keys that a new view gives to other nodes (readers with the
  /// older view still ask this node), and the hidden records of nodes that a new view lacks.
  std::chrono::milliseconds grace = discovery::foreign_keys_kept;
  storage::epoch_table epochs; ///< Tells which keys' pages are too old to be found.
  /// Longest wait for another shard to take one batch.
  std::chrono::milliseconds hand_over_timeout{1000};
  /// Most bytes of withdrawals that are on their way to new owners at once. Further withdrawals are
  /// not passed on: the next reader of such a record withdraws it.
  std::uint64_t forwarded_bytes_max = 4u << 20;
};

/// Returns the empty shard that a directory with these options keeps.
std::shared_ptr<shared_shard> make_shard(const directory_options& options);

/// Tells a directory of a view or of a change of connections. Until the directory has heard of it,
/// nobody else changes its shard. Threads: any.
void tell_directory(const directory_actor& keeper, shared_shard& shard, const topology_ptr& next);
/// Tells a directory that the cluster goes on without its node since the view `without`, with the
/// same care as `tell_directory`.
void tell_directory_to_leave(const directory_actor& keeper, shared_shard& shard,
                             const discovery::view& without);

struct directory_state {
  directory_state() = default;
  ~directory_state();
  directory_options options;
  std::shared_ptr<shared_shard> shard;
  topology_ptr cluster;
  metrics::samples totals;               ///< Counts what this actor does.
  lost_pages lost{std::size_t{1} << 16}; ///< Pages whose holders are gone.
  directory::member_shard::swept swept;  ///< What the sweep that is under way has forgotten.
  /// Bytes of withdrawals that new owners have not answered yet.
  std::uint64_t forwarded_bytes = 0;
  static inline const char* name = "directory";

  /// @pre This is the first call.
  void begin(const directory_options& chosen, std::shared_ptr<shared_shard> own);
  /// Takes a new view or a change of connections. True: `sweep` is due `grace` from `now`.
  bool adopt(const topology_ptr& next, caf::actor_clock::time_point now);
  /// Forgets all members and records until a view newer than `without` comes.
  void leave(const discovery::view& without);
  /// Forgets the records of pages that were cleared.
  void forget_old();
  /// Forgets the records of nodes that are gone, and keys that this node does not own: a slice of
  /// them. Returns whether there are more.
  bool sweep(caf::actor_clock::time_point now);
  /// Publishes a batch of records of a sender that has the view of this number. Returns one
  /// publish_outcome byte per record.
  result<std::string> publish(std::string_view batch, const directory::view_number& known);
  metrics::samples samples() const;
  directory_report report() const;
};

/// Keeps one directory shard. Others change it only as `shared_shard` lets them. Threads:
/// scheduler. Asks: when its node drains, other nodes' shards to take its records and withdrawals;
/// always with a time-out.
/// @param shard made by `make_shard` with the same options
directory_actor::behavior_type
run_directory(directory_actor::stateful_pointer<directory_state> self,
              const directory_options& options, std::shared_ptr<shared_shard> shard);

} // namespace peercache::actors
