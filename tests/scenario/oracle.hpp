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
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace peercache::scenario {

/// Knows everything that was ever put, and judges what readers got. A page's bytes are the number
/// of its put, told apart by position, so that bytes of two fillings never look like one.
class oracle {
public:
  /// The number of a new put of `key`.
  std::uint64_t put(const page_key& key);
  /// From now on the process with this incarnation offers the bytes of that put.
  void offers(const incarnation& holder, std::uint64_t put);

  static void write(std::span<std::byte> bytes, std::uint64_t put);

  /// A reader was given these bytes as `key`, by a record that named `owner`.
  void judge_hit(const page_key& key, const incarnation& holder, std::span<const std::byte> bytes);
  /// A process lives in this view now; `before` is the stamp of the one before.
  void judge_view(const discovery::view& adopted, const discovery::view_stamp& before,
                  discovery::time_point now);
  /// Somebody sends this. What comes after a view of three masters or more has the votes of most of
  /// them; and only one does, as long as a majority of these runs, and no view of fewer masters,
  /// which decide alone, comes after it. Exempt are fragments: who makes one has not been answered
  /// by a majority of its masters for as long as it has to wait.
  void judge_packet(const discovery::packet& sent, discovery::time_point now);
  /// The view that the process goes by from now on.
  void lives_in(const incarnation& process, const discovery::view_stamp& stamp);
  /// The process got an answer of another one to a heartbeat.
  void was_answered(const incarnation& process, const incarnation& by, discovery::time_point now);
  void has_ended(const incarnation& process);
  void fault(std::string what);

  /// Empty: all is well. At most the first few.
  const std::vector<std::string>& faults() const noexcept { return faults_; }

private:
  using attempt_key = std::pair<discovery::view_stamp, discovery::ballot>; ///< Base, attempt.
  struct attempt {
    discovery::view_stamp value;
    std::set<node_id> voters; ///< Besides the proposer.
  };

  void note_decided(const discovery::view& one, discovery::time_point now);
  void judge_unvoted(const discovery::view& one, discovery::time_point now);
  bool heard_majority(const incarnation& process, const std::vector<incarnation>& masters,
                      discovery::time_point now) const;
  bool has_votes(const discovery::view_stamp& one, const discovery::view_stamp& base) const;
  bool majority_runs(const discovery::view_stamp& base) const;

  std::vector<page_key> keys_; ///< Of put number i + 1.
  std::unordered_map<incarnation, std::unordered_set<std::uint64_t>> offered_;
  std::map<discovery::view_stamp, std::size_t> views_; ///< Hash of the view of each stamp.
  /// After which view that of each stamp was proposed, and what was decided after each view.
  std::map<discovery::view_stamp, discovery::view_stamp> bases_;
  std::map<discovery::view_stamp, discovery::view_stamp> decided_;
  discovery::view_stamp few_masters_; ///< The newest view of fewer than three masters.
  std::map<discovery::view_stamp, std::vector<incarnation>> masters_; ///< Of each decided view.
  std::map<attempt_key, attempt> attempts_;
  std::unordered_set<incarnation> ended_;
  struct life {
    discovery::view_stamp view;
    std::deque<std::pair<discovery::time_point, incarnation>> answers; ///< The last few seconds'.
  };
  std::unordered_map<incarnation, life> lives_;
  std::vector<std::string> faults_;
};

} // namespace peercache::scenario
