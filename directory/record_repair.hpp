#pragma once

#include "common/ids.hpp"
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
  generation gen; ///< Of its slot; nothing for a page on disk.
  tier where = tier::memory;
  std::uint32_t length_bytes = 0; ///< Of a page on disk, and its checksum.
  std::uint64_t checksum = 0;
};

struct repair_totals {
  std::uint64_t passes = 0;           ///< All owners were compared with.
  std::uint64_t bytes = 0;            ///< Sent and received for it.
  std::uint64_t differing_ranges = 0; ///< Of an owner each.
  std::uint64_t published = 0;        ///< Records that an owner did not have.
  std::uint64_t withdrawn = 0;        ///< Records of pages that are gone.
};

/// Compares what this node holds with what the directory's shards believe it holds, slowly and for
/// ever, and repairs both ways: a withdrawal or publication that was lost costs its key only until
/// the next pass. One pass:
///
///   sum      the pool and the disk are walked; digests of (owner, range of keys)
///   compare  each owner says in which ranges it knows other facts
///   collect  for an owner with differences, the pages of those ranges are walked again
///   list     that owner lists its facts of them; what it lacks is published to it, what is gone is
///            withdrawn
///
/// Events in, one action out after each; its user carries it out and answers with the next event.
/// What changed meanwhile shows up as a difference and is judged by generation: records that are
/// newer than the collection are left alone, and a page is withdrawn only if it was neither in the
/// pool nor on the disk all the while. Withdrawals compare, so a mistake would cost a miss.
///
/// Threads: none; the owner serializes. No I/O; time is an argument. Bounds: `bytes_per_second` for
/// messages and walking; `collected_max` pages remembered, or one range's.
class record_repair {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    node_id self;
    incarnation inc;
    std::uint32_t replicas = 2;
    std::uint64_t bytes_per_second = 0;      ///< 0: no repair.
    std::chrono::milliseconds pause{30'000}; ///< Between two passes.
    /// After a change of view: shards keep what they own no more for a while, which is no
    /// difference worth looking into.
    std::chrono::milliseconds settling = discovery::foreign_keys_kept + std::chrono::seconds(1);
    std::size_t collected_max = 65536;
  };

  struct walk_pages { ///< Pool first, then disk; answer with `walked`.
    bool on_disk = false;
    std::uint64_t place = 0; ///< 0: from the start.
  };
  struct compare_with { ///< Answer with `compared`, or `failed`.
    node_id owner;
    std::string comparison;
  };
  struct list_of { ///< Answer with `listed`, or `failed`.
    node_id owner;
    std::string request;
  };
  /// Tell the owner; then call `tick` again, at once.
  struct repair_owner {
    node_id owner;
    std::vector<held_page> publish;
    std::vector<withdraw_record> withdraw;
  };
  struct nothing {};
  using action = std::variant<nothing, walk_pages, compare_with, list_of, repair_owner>;

  explicit record_repair(const options& opts);

  /// Who owns what, from now on, and everyone who owns anything. A pass that goes on begins again
  /// later: what changes owner is being published as it is. The next one comes sooner than others:
  /// a change of view is when records are lost, as where a shard learns late that their owner was
  /// out for a moment.
  void follow(const discovery::hash_ring& ring, std::vector<node_id> owners, time_point now);

  /// What to do now; `nothing` while an answer is out, or time or the budget say so.
  /// @param newest of all generations that were published so far
  action tick(time_point now, generation newest);

  /// Some of the pages, and the place to go on at (0: that was all).
  void walked(std::span<const held_page> pages, std::uint64_t next_place);
  void compared(std::uint64_t differing_ranges);
  void listed(std::string_view answer);
  /// No answer: the owner is left for the next pass.
  void failed();

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
  std::vector<node_id> owners_; ///< Everyone in it: also who is to know nothing of this node.
  rate_limit budget_;           ///< Bytes.
  repair_totals totals_;
  phase phase_ = phase::idle;
  bool waiting_ = false; ///< For an answer, which may belong to a pass that was given up.
  time_point next_pass_{};
  /// Of owners: the first range that there was no room for in the last pass.
  std::map<node_id, std::uint32_t> left_out_;
  // Of the pass.
  walk_pages walk_;
  std::map<node_id, holder_digest> digests_; ///< Of owners still to be compared with.
  // Of one owner.
  node_id owner_;
  std::uint64_t ranges_ = 0;
  generation collected_at_;                           ///< The newest when the collection began.
  std::unordered_map<page_key, held_page> collected_; ///< What the owner has not listed yet.
  std::uint32_t list_place_ = 0;
  std::vector<withdraw_record> dead_;
};

} // namespace peercache::directory
