#pragma once

#include "common/limits.hpp"
#include "common/page_status.hpp"
#include "directory/page_location.hpp"
#include "discovery/hash_ring.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// What the directory says of one key.
struct lookup_answer {
  /// Owners that are asked for one key at most: those of today, then those of before.
  static constexpr std::size_t asked_max = 6;

  page_status status = page_status::pending;     ///< hit, not_found, or why nobody could be asked.
  page_status reason = page_status::unreachable; ///< While pending: not_found once an owner said
                                                 ///< so, else why none has answered.
  std::uint8_t count = 0;
  std::uint8_t asked_count = 0;
  bool not_mine = false; ///< While pending: a shard said that the key has other owners.
  std::array<node_id, asked_max> asked; ///< In order.
  std::array<directory::page_location, limits::locations_per_key_max> locations;
};

/// Who owned which key, as far as one process knows. What is pointed to outlives its user.
struct owners_known {
  directory::view_number view;
  const discovery::hash_ring* now = nullptr;
  /// Rings that were left so lately that their owners still have their records; newest first.
  std::vector<const discovery::hash_ring*> before;
  node_id own; ///< Of this host: its shard costs no network; zero for none.
  std::uint32_t replicas = 2;
  /// Whether a process is in the view.
  std::function<bool(const incarnation&)> is_member;
};

/// One look-up of many keys without its sockets: in rounds, each with one question an owner.
///
/// Any owner of a key will do, so those are asked that own many of the open keys: a greedy cover,
/// two thirds of the messages that asking each key's first owner takes on 100 nodes.
///
/// An owner that fails is replaced by the next one of each of its keys, and so is one that finds
/// nothing: it may not have been told yet. After a change of view the owners of before are asked
/// too. A shard that says by a newer view that a key is not its own sets `newer`: its user learns
/// that view and calls `follow`, once.
///
/// Threads: one. No clock, no I/O. Bounds: an owner is asked once for a key; `asked_max` owners a
/// key. Invariant: what is reported as found is of members of the view only.
class lookup_plan {
public:
  enum class use : std::uint8_t { yes, no_link, left_alone };
  /// Whether an owner may be asked. With `now` it will be, if so: a breaker that tries its peer out
  /// has let one call pass.
  using usable = std::function<use(node_id, bool now)>;

  /// Whom to ask, and a new view, take no more rounds than these.
  static constexpr int rounds_max = static_cast<int>(lookup_answer::asked_max) + 1;

  /// One owner's part of a round.
  struct share {
    node_id owner;
    std::string request; ///< Packed keys.
    std::vector<std::uint32_t> indices;
    /// Some of its keys have no other owner left to ask, and no answer so far.
    bool last_chance = false;
    /// All its keys were answered with `not_found` before: a second opinion.
    bool second_opinion = true;

    /// How long the owner may take of the time that is left, before the next one is asked.
    std::chrono::nanoseconds patience(std::chrono::nanoseconds left) const;
  };

  /// How long one may take that is asked for a newer view.
  static std::chrono::nanoseconds patience_for_view(std::chrono::nanoseconds left);

  /// All keys are open. @pre answers.size() == keys.size(); both outlive the plan
  lookup_plan(std::span<const page_key> keys, std::span<lookup_answer> answers);

  /// From here on these owners are asked. Owners that were asked are not asked again.
  void follow(owners_known known);

  /// Whom to ask next for what is open; empty when nobody is left.
  std::vector<share> next_round(const usable& may_ask);

  /// What an owner has answered (directory/wire.hpp). False: it is malformed, which counts as a
  /// failure.
  bool answered(const share& asked, std::string_view answer);
  /// It has not: `reason` is its keys' unless another owner answers.
  void failed(const share& asked, page_status reason);

  /// The newest view that a shard spoke of, when it is newer than the one that is followed.
  bool is_behind() const noexcept { return newer_ > known_.view; }
  const directory::view_number& newer() const noexcept { return newer_; }
  node_id newer_from() const noexcept { return newer_from_; } ///< Who follows that view.

  /// Every open key gets its reason. @param in_time false: the rounds ended with the deadline, and
  /// what nobody was asked for is `timed_out`, whoever could have been
  void finish(bool in_time = true);

private:
  std::size_t owners_today(const page_key& key, std::span<node_id> out) const;
  std::size_t candidates(const page_key& key, std::span<node_id> out) const;
  void count_open_keys();
  /// The next owner to ask; false when there is none. `more`: there is another one after it.
  bool choose(std::uint32_t index, const usable& may_ask, node_id& chosen, bool& more);
  void take(std::uint32_t index, std::size_t count, bool not_mine);

  std::span<const page_key> keys_;
  std::span<lookup_answer> answers_;
  owners_known known_;
  directory::view_number newer_;
  node_id newer_from_;
  std::unordered_map<node_id, std::size_t> open_keys_; ///< Of each owner, in this round.
  bool saves_messages_ = false; ///< Whom to ask first makes a difference to their number.
};

} // namespace peercache::client
