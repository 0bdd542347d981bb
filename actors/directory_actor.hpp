#pragma once

#include "actors/link_names.hpp"
#include "actors/lost_pages.hpp"
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
  std::uint64_t records_max = 64u << 20; ///< Records beyond this number are refused.
  /// Time for which the shard keeps keys that a new view gives to other nodes (readers with the
  /// older view still ask here), and the hidden records of nodes that a new view lacks.
  std::chrono::milliseconds grace = discovery::foreign_keys_kept;
  storage::epoch_table epochs; ///< Tells which keys' pages are too old to be found.
  /// Longest wait for another shard to take one batch.
  std::chrono::milliseconds hand_over_timeout{1000};
  /// Most bytes of withdrawals that are on their way to new owners at once. Further withdrawals are
  /// not passed on: the next reader of such a record withdraws it.
  std::uint64_t forwarded_bytes_max = 4u << 20;
};

struct directory_state {
  directory_state() = default;
  directory_options options;
  directory::shard shard;
  topology_ptr cluster;
  caf::actor_clock::time_point changed_at{}; ///< When the last view was adopted.
  bool sweep_is_due = false;             ///< The shard has records of keys that it does not own.
  discovery::view_stamp left_at;         ///< Stamp of the newest view without this node.
  metrics::samples totals;               ///< Counts what this actor does.
  lost_pages lost{std::size_t{1} << 16}; ///< Pages whose holders are gone.
  std::optional<directory::hand_over> giving; ///< Set while records are handed over.
  /// Requests that are answered at the end of `giving`.
  std::vector<caf::typed_response_promise<std::uint64_t>> given;
  /// Bytes of withdrawals that new owners have not answered yet.
  std::uint64_t forwarded_bytes = 0;
  static inline const char* name = "directory";

  /// Takes a new view; hides the records of nodes that are gone. Returns false when the cluster
  /// went on without this node since that view: the records would get old unnoticed.
  bool adopt(const topology_ptr& next);
  /// Forgets all members and records until a view newer than `without` comes.
  void leave(const discovery::view& without);
  /// Forgets the records of nodes that are gone.
  void forget_gone();
  /// Forgets keys that this node does not own.
  void forget_foreign_keys();
  bool owns(const page_key& key) const;
  /// Publishes a batch of records. Returns one publish_outcome byte per record.
  result<std::string> publish(std::string_view batch);
  /// Publishes records of a sender that has the view of this number. The outcome is `behind` for
  /// all records while this node has an older view.
  result<std::string> publish(std::string_view batch, std::uint64_t term, std::uint64_t version);
  /// Returns the locations of these keys; `not_mine` for keys that this node neither knows nor
  /// owns.
  result<std::string> look_up(std::string_view keys);
  metrics::samples samples() const;
  directory_report report() const;
};

/// One directory shard. Threads: scheduler. Asks: when its node drains, other nodes' shards to take
/// its records and withdrawals; always with a time-out.
directory_actor::behavior_type
run_directory(directory_actor::stateful_pointer<directory_state> self,
              const directory_options& options);

} // namespace peercache::actors
