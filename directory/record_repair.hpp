#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "common/rate_limit.hpp"
#include "directory/digest.hpp"
#include "directory/page_location.hpp"
#include "directory/wire.hpp"
#include "discovery/former_rings.hpp"
#include "discovery/hash_ring.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace peercache::directory {

/// A page that this node holds.
struct held_page {
  page_key key;
  generation gen; ///< Generation of the page in its slot; zero for a page on disk.
  tier where = tier::memory;
  /// Length of a page on disk; for a page in memory this and `checksum` are unused.
  std::uint32_t length_bytes = 0;
  std::uint64_t checksum = 0;
};

struct repair_totals {
  std::uint64_t passes = 0; ///< Passes that have compared all owners.
  std::uint64_t bytes = 0;  ///< Bytes sent and received by the comparison.
  /// Ranges in which an owner's records differed from what this node holds, added up over the
  /// owners.
  std::uint64_t differing_ranges = 0;
  std::uint64_t published = 0; ///< Records published to an owner that lacked them.
  std::uint64_t withdrawn = 0; ///< Records withdrawn because their pages are gone.
};

/// Compares, slowly and for ever, what this node holds with what the directory's shards believe it
/// holds, and repairs both ways: a lost withdrawal or publication costs its key only until the next
/// pass. One pass:
///
///   sum      the pool and the disk are walked; digests of (owner, range of keys)
///   compare  each owner says in which ranges it knows other facts
///   collect  for an owner with differences, the pages of those ranges are walked again
///   list     that owner lists its facts in those ranges; facts that it lacks are published to it,
///            facts of pages that are gone are withdrawn
///
/// Events in, one action out after each; the user carries it out and answers with the next event. A
/// change during a pass shows up as a difference and is judged by generation: records that are
/// newer than the collection are left alone, and a page is withdrawn only if it was neither in the
/// pool nor on the disk all the while. Withdrawals compare generations, so a mistake would cost a
/// miss.
///
/// Threads: none; the owner serializes. No I/O; time is an argument. Bounds: `bytes_per_second` for
/// messages and walking; `collected_max` pages remembered, or one range's pages if it has more.
class record_repair {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    node_id self;
    incarnation inc;
    std::uint32_t replicas = limits::directory_replicas_default;
    std::uint64_t bytes_per_second = 0; ///< Budget for messages and walking; 0: no repair.
    /// Time from the beginning of one pass to that of the next.
    std::chrono::milliseconds pause{30'000};
    /// Wait between a change of view and the next pass. Shards keep records that they no longer own
    /// for a while; differences in such records are not worth looking into.
    std::chrono::milliseconds settling = discovery::foreign_keys_kept + std::chrono::seconds(1);
    std::size_t collected_max = 65536;
  };

  struct walk_pages { ///< Walk some pages, the pool's first, then the disk's. Answer with `walked`.
    bool on_disk = false;
    std::uint64_t place = 0; ///< Place where the walk goes on; 0: from the start.
  };
  struct compare_with { ///< Send the comparison to the owner. Answer with `compared` or `failed`.
    node_id owner;
    std::string comparison;
  };
  struct list_of { ///< Ask the owner for its records. Answer with `listed` or `failed`.
    node_id owner;
    std::string request;
  };
  /// The caller of `tick` shall send `owner` these publications and withdrawals, and then call
  /// `tick` again at once.
  struct repair_owner {
    node_id owner;
    std::vector<held_page> publish;
    std::vector<withdraw_record> withdraw;
  };
  struct nothing {};
  using action = std::variant<nothing, walk_pages, compare_with, list_of, repair_owner>;

  explicit record_repair(const options& opts);

  /// Takes the ring and all owners in it. An unfinished pass is given up: pages that change owner
  /// are being published anyway. The next pass comes sooner than usual, because records get lost at
  /// changes of the view: for instance a shard that learns late that this node was out of the view
  /// drops its records.
  void follow(const discovery::hash_ring& ring, std::vector<node_id> owners, time_point now);

  /// Returns the action to carry out now; `nothing` while an answer is awaited, before the next
  /// pass is due, and while the budget is spent. @param newest the newest generation that was
  /// published so far
  action tick(time_point now, generation newest);

  /// Call with the answer to `walk_pages`: some of the pages, and the place where the walk goes on
  /// (0: `pages` were the last).
  void walked(std::span<const held_page> pages, std::uint64_t next_place);
  void compared(std::uint64_t differing_ranges);
  void listed(std::string_view answer);
  /// Call when the owner did not answer, which leaves that owner for the next pass; or when a walk
  /// failed, which gives up the whole pass.
  void failed();

  /// Whether a pass is under way.
  bool at_work() const noexcept { return phase_ != phase::idle; }
  const repair_totals& totals() const noexcept { return totals_; }

private:
  enum class phase : std::uint8_t { idle, sum, compare, collect, list, repair };

  action compare_next();
  action repair();
  void begin_walk(phase next);
  void add_to_digests(const held_page& page);
  void choose_ranges(std::uint64_t differing);
  bool is_of_owner(const page_key& key) const;
  void judge(const withdraw_record& record);
  void charge(std::size_t bytes);
  void leave_owner();
  void give_up_pass();

  options options_;
  discovery::hash_ring ring_;
  /// All owners in the ring, including those that should know nothing of this node.
  std::vector<node_id> owners_;
  rate_limit budget_; ///< Limits the bytes of messages and of walking.
  repair_totals totals_;
  phase phase_ = phase::idle;
  /// An action's answer is awaited; the action may belong to a pass that was given up.
  bool waiting_ = false;
  time_point next_pass_{};
  /// For each owner: the first range that the last pass had no room for.
  std::map<node_id, std::uint32_t> left_out_;
  // State of the current pass.
  walk_pages walk_;
  /// Owners that this pass has still to compare, with the digests of their pages.
  std::map<node_id, holder_digest> digests_;
  // State of the comparison with one owner.
  node_id owner_;
  std::uint64_t ranges_ = 0;
  generation collected_at_; ///< The newest generation when the collection began.
  /// Collected pages that the owner has not listed yet.
  std::unordered_map<page_key, held_page> collected_;
  std::uint32_t list_place_ = 0;
  std::vector<withdraw_record> dead_;
};

} // namespace peercache::directory
