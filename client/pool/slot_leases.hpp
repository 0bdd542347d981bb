#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace peercache::client {

/// Slots that the node reserved for later sets, so that a set need not ask before it copies. All
/// leased slots are for pages of the same number of granules, that of the last set's pages.
///
/// Slots come with the answer to a commit. So a caller that sets page after page needs as many as
/// it fills in that time: the most that were wanted between two answers of late are the demand, of
/// which a 64th is forgotten with each answer, and twice the demand is leased. Threads: any.
class slot_leases {
public:
  /// Takes a slot for a page of `granules` granules, if one is leased.
  bool take(std::uint32_t granules, slot_id& slot);
  /// Returns how many more slots to ask for, so that `at_rest`, or twice the demand if that is
  /// more, but no more than `most`, are leased or on their way; these count as on their way from
  /// now on. Slots of another size than before begin with no demand.
  std::uint32_t ask_for(std::uint32_t granules, std::uint64_t at_rest, std::uint64_t most);
  /// Notes that a commit was answered: the slots that were wanted since the one before are what a
  /// commit's time takes.
  void commit_answered();
  /// Returns, to be abandoned, the slots beyond those of the largest `at_rest` for their size, if
  /// none was wanted since the last call.
  std::vector<slot_id> take_idle();
  /// Takes the answer to a question for `asked` slots for pages of `granules` granules. Returns
  /// slots that are of no use, to be abandoned.
  std::vector<slot_id> add(std::uint32_t granules, std::uint32_t asked,
                           const std::vector<slot_id>& slots);

private:
  std::mutex lock_;
  std::uint32_t granules_ = 0; ///< Guarded by lock_, like all members below.
  std::uint64_t on_their_way_ = 0;
  std::vector<slot_id> slots_;
  std::uint32_t asked_granules_ = 0; ///< Granules of the slots that were asked for last.
  // All of these count slots of `asked_granules_`.
  std::uint64_t wanted_ = 0; ///< Slots that were wanted since the last commit was answered.
  std::uint64_t demand_ = 0;
  std::uint64_t at_rest_ = 0;   ///< The most that `ask_for` was told.
  bool wanted_of_late_ = false; ///< Whether a slot was wanted since `take_idle`.
};

} // namespace peercache::client
