#pragma once

#include "common/limits.hpp"
#include "common/result.hpp"
#include "directory/hand_over.hpp"
#include "directory/shard.hpp"
#include "directory/shard_batch.hpp"
#include "directory/wire.hpp"
#include "discovery/former_rings.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/view.hpp"
#include "storage/epoch_table.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::directory {

/// A member's shard, and how it follows the cluster's views: which keys it answers for, when it
/// forgets records, and the hand-over of its records before the member drains or leaves.
///
/// Events in, answers and orders out; the driver has the clock, the timers and the messages
/// (actors/directory/directory_actor.cpp). Threads: none; the owner serializes. Time never goes
/// back. Bounds: those of `shard` and `hand_over`.
class member_shard {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    node_id self;
    std::uint32_t replicas = limits::directory_replicas_default;
    std::uint64_t records_max = 64u << 20; ///< Records beyond this number are refused.
    int file = -1; ///< File in which the shard's memory lies (`shard_memory`).
    /// Time for which the shard keeps keys that a new view gives to other members (readers with the
    /// older view still ask here), and the records of processes that a new view lacks, which it
    /// tells nobody meanwhile.
    std::chrono::milliseconds grace = discovery::foreign_keys_kept;
    storage::epoch_table epochs;      ///< Tells which keys' pages are too old to be found.
    std::uint32_t sweep_slice = 4096; ///< Places of records that one call of `sweep` looks at.
    /// Pieces of a hand-over; its other fields are filled in when the hand-over begins.
    hand_over::options giving;
  };

  /// A view and its hash ring.
  struct cluster {
    std::shared_ptr<const discovery::view> view;
    std::shared_ptr<const discovery::hash_ring> ring;
  };

  /// By what a look-up is answered besides the records: a copy for threads that look keys up while
  /// the shard changes.
  struct answering {
    node_id self;
    std::uint32_t replicas = limits::directory_replicas_default;
    cluster by; ///< Null without a usable view.
    storage::epoch_table epochs;

    /// @pre this object outlives what is returned
    key_ownership ownership() const;
    bool operator==(const answering& other) const noexcept {
      return by.view == other.by.view && by.ring == other.by.ring;
    }
  };

  /// Tells what `follow` did with a view.
  enum class taken : std::uint8_t {
    /// Refused: a view at least as new lacked this member, whose records would get old unnoticed.
    no,
    same, ///< The view is followed already.
    anew, ///< The view is followed from now on; `sweep` is due `grace` later.
  };

  /// How many records a slice of a sweep has forgotten.
  struct swept {
    std::size_t gone = 0;    ///< Records whose process is gone.
    std::size_t foreign = 0; ///< Records whose keys other members own.
    bool more = false;       ///< The sweep that all callers share has not ended: call again, soon.
  };

  /// What this member does when it has given its records: go on without keys of its own, or end.
  enum class afterwards : std::uint8_t { drains, leaves };

  member_shard() = default;
  explicit member_shard(const options& opts)
      : options_(opts), shard_(opts.records_max, opts.file) {}

  directory::shard& records() noexcept { return shard_; }
  const directory::shard& records() const noexcept { return shard_; }
  /// Returns the process of a member by the view that is followed; null when the view lacks it.
  const incarnation* process_of(node_id id) const;
  /// When the last view was taken.
  time_point changed_at() const noexcept { return changed_at_; }

  /// Takes a view; hides the records of processes that it lacks.
  taken follow(cluster next, time_point now);
  /// Forgets all members and records until a view newer than `without` comes. Returns the number of
  /// records that were forgotten.
  std::size_t leave(const discovery::view_stamp& without);

  /// Publishes a batch of records from a sender that follows the view of the number `known` (zero:
  /// the sender does not say). Returns one publish_outcome byte per record: `behind` for all while
  /// `is_behind`.
  result<std::string> publish(std::string_view batch, const view_number& known = {});
  /// Whether `publish` does no more with this batch than to record it in memory that the shard has:
  /// this member knows the sender's view, and no sweep becomes due.
  bool publishes_at_once(std::string_view batch, const view_number& known) const;
  /// Whether this member follows an older view than that of the number `known`.
  bool is_behind(const view_number& known) const;
  /// By what look-ups are answered now.
  answering answers_by() const;
  /// Tells readers of the shard's memory by which view look-ups are answered now. Those on other
  /// hosts, who know nothing of clears, have to ask while the epoch table is closed, and from a
  /// clear on (`directory::shard::forbid_remote_reads`) until `forget_old` has found no older
  /// records.
  void tell_remote_readers();
  /// Forgets the records of pages that were cleared. Returns how many.
  std::size_t forget_old();
  /// Returns the locations of these keys; `not_mine` for keys that this member neither knows nor
  /// owns. @param foreign is raised by the number of keys that are `not_mine`
  result<std::string> look_up(std::string_view keys, std::uint64_t& foreign) const;

  /// Returns true when the caller has to call `sweep` `grace` from now: the batch has keys that
  /// this member does not own, and no earlier batch has made a sweep due. Such keys come from a
  /// draining member that hands its records over, or from a producer with another view. If no later
  /// view gives this member the keys (the operator may end the drain), only the sweep forgets them.
  bool makes_sweep_due(std::string_view publish_batch);
  /// If `options::grace` has passed since the last view: forgets the records of processes that are
  /// gone, and, while the view has this member, those of keys that other members own. Does one
  /// slice of that, so that others of the shard's users wait for no more than a slice. If two
  /// callers sweep at once, they share one walk; the caller that is left then begins a new walk. A
  /// walk goes once around, from where the last one ended: views that end each walk early keep no
  /// record for ever.
  /// @param gone is called with each key of a process that is gone
  swept sweep(time_point now, const std::function<void(const page_key&)>& gone = nullptr);

  /// Begins to give the records to the members that will own their keys. A hand-over that is under
  /// way goes on; from now on as a leaving member's, if this call is that of one.
  /// @param then `leaves`: records of this process are left out, because its pages go with it
  /// @param done gets what the hand-over came to, in the call of `end_giving` that ends it; zeros
  /// at once when the last view taken lacks this member, because a node outside the view owns
  /// nothing
  void begin_to_give(afterwards then, time_point until,
                     std::function<void(const handed_over&)> done);
  bool gives() const noexcept { return giving_.has_value(); }
  /// Returns the batches to publish now. Call after `begin_to_give` and after each `given` and
  /// `not_given`; then publish the batches, and call `end_giving`.
  std::vector<hand_over::order> give(time_point now);
  /// Call when a batch of `give` was answered, with a `publish_outcome` for each of its records.
  /// Returns how many records its receiver took. @pre gives()
  std::uint64_t given(std::string_view outcomes);
  /// Call when a batch of `give` with this many records has failed. @pre gives()
  void not_given(std::uint64_t records);
  /// If the hand-over is done, ends it and returns what it came to.
  std::optional<handed_over> end_giving();
  /// Returns orders that pass withdrawals on to the new owners to which a running hand-over may
  /// have given the withdrawn records already.
  std::vector<hand_over::order> forward(std::string_view withdrawals) const;

private:
  bool owns(const page_key& key) const;
  bool needs_sweep(std::string_view publish_batch) const;

  options options_;
  directory::shard shard_;
  cluster cluster_; ///< Null before the first view.
  time_point changed_at_{};
  discovery::view_stamp left_at_;          ///< Stamp of the newest view without this member.
  std::uint64_t forgotten_changes_ = 0;    ///< `epochs.changes()` up to which old records are gone.
  bool sweep_is_due_ = false;              ///< The shard has records of keys that it does not own.
  std::uint32_t sweep_from_ = 0;           ///< Place of the next slice, of this sweep or the next.
  std::optional<std::uint32_t> sweep_end_; ///< Place at which the sweep began; null: there is none.
  std::optional<hand_over> giving_;
  /// Functions to call when `giving_` ends.
  std::vector<std::function<void(const handed_over&)>> waiting_;
};

} // namespace peercache::directory
