#pragma once

#include "common/limits.hpp"
#include "common/page_status.hpp"
#include "directory/page_location.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/view.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// The directory's answer about one key.
struct lookup_answer {
  /// Most owners that are asked for one key: current ones, then former ones.
  static constexpr std::size_t asked_max = 6;

  /// Leaves the arrays as they are: to fill them would take as long as to search for the key.
  lookup_answer() noexcept {}

  page_status status = page_status::pending; ///< `pending` while the key is open; then hit,
                                             ///< not_found, or why no owner has answered.
  /// While pending: not_found once an owner said so, else why no owner has answered.
  page_status reason = page_status::unreachable;
  std::uint8_t count = 0;
  std::uint8_t asked_count = 0;
  bool not_mine = false; ///< While pending: a shard said that the key has other owners.
  /// While pending: an owner was asked that is not overdue, so no other owner is asked yet.
  bool waits = false;
  union {
    /// Owners in the order in which they were asked; the first `asked_count` are defined.
    std::array<node_id, asked_max> asked;
  };
  union {
    /// The first `count` are defined.
    std::array<directory::page_location, limits::locations_per_key_max> locations;
  };
};
static_assert(std::is_trivially_copyable_v<lookup_answer>);

/// The owners of all keys, now and lately, as far as one process knows. View and rings must outlive
/// the struct.
struct owners_known {
  /// Makes the owners by `view` and its hash ring. `before`: the rings of earlier views whose
  /// owners are still asked, newest first.
  static owners_known by(const discovery::view& view, const discovery::hash_ring& ring,
                         std::vector<const discovery::hash_ring*> before);

  directory::view_number view;
  const discovery::hash_ring* now = nullptr;
  /// Rings of earlier views whose owners still have their records; newest first.
  std::vector<const discovery::hash_ring*> before;
  node_id own; ///< This host's node, whose shard costs no network; zero: there is none.
  std::uint32_t replicas = limits::directory_replicas_default;
  /// Whether the process that holds the page is in the view.
  std::function<bool(const directory::page_location&)> is_member;
};

/// One look-up of many keys without its sockets: in rounds, each with one question per owner.
///
/// Any owner of a key will do, so owners of many open keys are asked: a greedy cover, which on 100
/// nodes takes two thirds of the messages that asking each key's first owner takes.
///
/// When an owner fails, the next owner of each of its keys is asked; likewise when an owner finds
/// nothing, for it may not have been told yet, and when it is overdue: a hedged request, whose
/// first good answer counts (Dean and Barroso, "The Tail at Scale", 2013). After a change of view
/// former owners are asked too. A shard that says, by a newer view, that a key is not its own sets
/// `newer`: the user fetches that view and calls `follow`, once.
///
/// Threads: one. No clock, no I/O. Bounds: an owner is asked once for a key; `asked_max` owners per
/// key. Invariant: locations that are reported as found are of members of the view only.
class lookup_plan {
public:
  /// Whether an owner may be asked; `unwillingly`: when no other owner is left for a key.
  enum class use : std::uint8_t { yes, unwillingly, no_link, left_alone };
  using usable = std::function<use(node_id)>;
  /// What a question that is overdue can still bring: nothing, for its keys have been found;
  /// another opinion on keys that other owners do not have; or the only answer.
  enum class worth : std::uint8_t { nothing, another_opinion, only_answer };

  /// Most rounds of a look-up: one for each owner of a key, and one for a newer view.
  static constexpr int rounds_max = static_cast<int>(lookup_answer::asked_max) + 1;

  /// The question of one round to one owner, about some of the keys.
  struct share {
    node_id owner;
    std::string request; ///< The packed keys that the owner is asked for.
    std::vector<std::uint32_t> indices;
    bool overdue = false; ///< The next owners may be asked before this owner has answered.
  };

  /// Returns how much of the remaining time a node that is asked for a newer view may take.
  static std::chrono::nanoseconds patience_for_view(std::chrono::nanoseconds left);

  /// All keys are open at first. @pre answers.size() == keys.size(); both outlive the plan
  lookup_plan(std::span<const page_key> keys, std::span<lookup_answer> answers);

  /// Sets the owners to ask from now on. Owners that were asked already are not asked again.
  void follow(owners_known known);

  /// Returns the questions of the next round; empty when no owner is left for an open key.
  std::vector<share> next_round(const usable& may_ask);

  /// Lets the next owners of the share's open keys be asked, while the share's owner may still
  /// answer.
  void set_overdue(share& asked);
  worth worth_of(const share& asked) const;
  /// Takes an owner's answer (directory/wire.hpp); keys that have been found elsewhere keep what
  /// was found. False: the answer is malformed, which counts as a failure.
  bool answered(const share& asked, std::string_view answer);
  /// Notes that an owner has not answered: `reason` becomes the reason of its keys unless another
  /// owner answers.
  void failed(const share& asked, page_status reason);

  /// Whether a shard spoke of a newer view than the one that is followed; `newer` is the newest
  /// such view.
  bool is_behind() const noexcept { return newer_ > known_.view; }
  const directory::view_number& newer() const noexcept { return newer_; }
  node_id newer_from() const noexcept { return newer_from_; } ///< The node that follows `newer`.

  /// Gives every open key its reason. @param in_time false: the rounds ended with the deadline, and
  /// keys that no owner was asked for are `timed_out`
  void finish(bool in_time = true);

private:
  std::size_t owners_today(const page_key& key, std::span<node_id> out) const;
  std::size_t messages_saved_by(node_id owner) const;
  std::size_t candidates(std::uint32_t index, std::span<node_id> out) const;
  void count_open_keys();
  /// Chooses the next owner to ask; false when there is none.
  bool choose(std::uint32_t index, const usable& may_ask, node_id& chosen);
  /// As `may_ask` says, or has said in this round: keys are many, and owners few.
  use verdict_on(node_id owner, const usable& may_ask);
  /// Ends the wait for this question's owner, so that other owners may be asked for its keys.
  void let_go(const share& asked);
  void take(std::uint32_t index, std::size_t count, bool not_mine);

  std::span<const page_key> keys_;
  std::span<lookup_answer> answers_;
  owners_known known_;
  directory::view_number newer_;
  node_id newer_from_;
  std::size_t open_; ///< Number of keys that are `pending`.
  struct verdict {
    node_id owner; ///< Zero: there is none.
    use may_ask = use::no_link;
  };
  /// Verdicts of this round, each at the place that the owner's id names.
  std::array<verdict, 16> verdicts_;
  std::unordered_map<node_id, std::size_t> open_keys_; ///< Open keys of each owner in this round.
  /// Whether the choice of owners makes a difference to the number of messages.
  bool saves_messages_ = false;
  struct owners_of_key {
    std::array<node_id, lookup_answer::asked_max - 2> ids;
    std::size_t count = 0;
  };
  /// Current owners of each key that is open in this round; only where `saves_messages_`.
  std::vector<owners_of_key> owners_;
};

} // namespace peercache::client
