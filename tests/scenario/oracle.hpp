#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "discovery/liveness.hpp"
#include "discovery/packet.hpp"
#include "discovery/view.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace peercache::scenario {

/// Knows everything that was ever put, and judges the bytes that readers got. The bytes of a page
/// encode the number of its put and differ by position, so that bytes of two fills never look
/// alike.
class oracle {
public:
  /// Returns the number of a new put of `key`.
  std::uint64_t put(const page_key& key);
  /// Notes that the process with this incarnation offers the bytes of that put from now on.
  void offers(const incarnation& holder, std::uint64_t put);

  static void write(std::span<std::byte> bytes, std::uint64_t put);

  /// Notes a fault unless `bytes`, which a reader got for `key`, are those of one put of this key
  /// by `holder`, the process that the reader's directory record named.
  void judge_hit(const page_key& key, const incarnation& holder, std::span<const std::byte> bytes);
  /// Judges a view that a process has adopted; `before` is the stamp of the process's last view.
  void judge_view(const discovery::view& adopted, const discovery::view_stamp& before,
                  discovery::time_point now);
  /// Judges a packet that is being sent. A view that follows a view of three masters or more needs
  /// the votes of a majority of these masters. No second view may follow the same view while a
  /// majority of its masters runs, unless a later view had fewer than three masters: one master of
  /// two or one may decide alone. Fragments are exempt: the maker of a fragment has not been
  /// answered by a majority of its masters for as long as it has to wait. A heartbeat that answers
  /// another one comes after that one, and soon.
  void judge_packet(const discovery::packet& sent, discovery::time_point now);
  /// Notes that the process uses the view with this stamp from now on.
  void lives_in(const incarnation& process, const discovery::view_stamp& stamp);
  /// Notes that `process` has got a heartbeat of the process `of`.
  void was_greeted(const incarnation& process, const incarnation& of, discovery::time_point now);
  /// Notes that the process `by` has answered a heartbeat of `process`.
  void was_answered(const incarnation& process, const incarnation& by, discovery::time_point now);
  void has_ended(const incarnation& process);
  /// Returns the views that were proposed so far to follow the view `base`.
  std::set<discovery::view_stamp> proposed_after(const discovery::view_stamp& base) const;
  /// Returns the masters of the view that was decided to follow the view `base`; nothing when no
  /// view was decided, or one that is not in `among`.
  std::optional<std::vector<incarnation>>
  masters_decided(const discovery::view_stamp& base,
                  const std::set<discovery::view_stamp>& among) const;
  void fault(std::string what);

  /// Returns the first eight faults found so far; empty when there are none.
  const std::vector<std::string>& faults() const noexcept { return faults_; }

private:
  using attempt_key = std::pair<discovery::view_stamp, discovery::ballot>; ///< Base and attempt.
  struct attempt {
    discovery::view_stamp value;
    std::set<node_id> voters; ///< Voters besides the proposer.
  };

  void note_decided(const discovery::view& one, discovery::time_point now);
  void judge_unvoted(const discovery::view& one, discovery::time_point now);
  bool heard_majority(const incarnation& process, const std::vector<incarnation>& masters,
                      discovery::time_point now) const;
  bool has_votes(const discovery::view_stamp& one, const discovery::view_stamp& base) const;
  bool majority_runs(const discovery::view_stamp& base) const;

  std::vector<page_key> keys_; ///< Element i is the key of put number i + 1.
  std::unordered_map<incarnation, std::unordered_set<std::uint64_t>> offered_;
  /// For each stamp: a hash of the view with this stamp.
  std::map<discovery::view_stamp, std::size_t> views_;
  /// `bases_`: the view after which each view was proposed. `decided_`: the view that was decided
  /// after each view.
  std::map<discovery::view_stamp, discovery::view_stamp> bases_;
  std::map<discovery::view_stamp, discovery::view_stamp> decided_;
  discovery::view_stamp few_masters_; ///< The newest view of fewer than three masters.
  /// Masters of each decided view.
  std::map<discovery::view_stamp, std::vector<incarnation>> masters_;
  std::map<attempt_key, attempt> attempts_;
  std::unordered_set<incarnation> ended_;
  struct life {
    discovery::view_stamp view;
    /// Answers that the process got in the last few seconds.
    std::deque<std::pair<discovery::time_point, incarnation>> answers;
    /// When the process last got a heartbeat of each other one.
    std::unordered_map<incarnation, discovery::time_point> greeted;
  };
  std::unordered_map<incarnation, life> lives_;
  std::vector<std::string> faults_;
};

} // namespace peercache::scenario
