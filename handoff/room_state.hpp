#pragma once

#include <cstdint>
#include <string>

namespace peercache::handoff {

/// States of a room at one worker, with SGLang's numbers (KVPoll). A room's state only grows, but
/// for `failed`, which wins over all but `success`; both of these are final.
enum class room_state : std::uint8_t {
  failed = 0,
  bootstrapping = 1,
  waiting_for_input = 2,
  transferring = 3,
  success = 4,
};

/// Why a room has failed.
struct room_failure {
  std::string reason;
  bool from_another_rank = false; ///< This worker had no part in it, and need not log it.
  bool operator==(const room_failure&) const = default;
};

} // namespace peercache::handoff
