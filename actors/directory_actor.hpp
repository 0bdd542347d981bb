#pragma once

#include "actors/link_names.hpp"
#include "directory/hand_over.hpp"
#include "directory/shard.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/topology.hpp"
#include "storage/epoch_table.hpp"

#include <chrono>
#include <cstdint>

namespace peercache::actors {

struct directory_options {
  node_id self;
  std::uint32_t replicas = 2;
  /// How long the shard keeps what a new view gives to other nodes: readers with the older view
  /// still ask here.
  std::chrono::milliseconds grace = discovery::foreign_keys_kept;
  storage::epoch_table epochs; ///< By which keys are too old to be found.
  /// Of one batch to another shard.
  std::chrono::milliseconds hand_over_timeout{1000};
};

struct directory_state {
  directory_state() = default;
  directory_options options;
  directory::shard shard;
  topology_ptr cluster;
  caf::actor_clock::time_point changed_at{}; ///< When the last view came.
  bool sweep_is_due = false;                 ///< It was told of keys that it does not own.
  discovery::view_stamp left_at;             ///< Of the newest view that came without this node.
  directory_report totals;
  std::optional<directory::hand_over> giving; ///< While the node drains or leaves.
  std::vector<caf::typed_response_promise<std::uint64_t>> given; ///< Who waits for its end.
  static inline const char* name = "directory";

  /// Learns who lives; forgets what belongs to the dead. False when the cluster went on without
  /// this node since: the records would get old unnoticed.
  bool adopt(const topology_ptr& next);
  /// Knows nobody and nothing until a view comes that is newer than this one.
  void leave(const discovery::view& without);
  /// Forgets what this node does not own.
  void forget_foreign_keys();
  bool owns(const page_key& key) const;
  /// One publish_outcome byte a record.
  result<std::string> publish(std::string_view batch);
  /// The same of one that knows this view.
  result<std::string> publish(std::string_view batch, std::uint64_t term, std::uint64_t version);
  /// The locations of these keys; `not_mine` for what this node neither knows nor owns.
  result<std::string> look_up(std::string_view keys);
  directory_report report() const;
};

/// One directory shard. Threads: scheduler. Asks: other nodes' shards, to take its records when its
/// node drains; always with a time-out.
directory_actor::behavior_type
run_directory(directory_actor::stateful_pointer<directory_state> self,
              const directory_options& options);

} // namespace peercache::actors
