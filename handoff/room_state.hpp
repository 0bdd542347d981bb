#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace peercache::handoff {

/// States of a room at one worker, with SGLang's numbers (KVPoll). A room's state only grows,
/// except that every state but `success` may become `failed`; `success` and `failed` are final.
enum class room_state : std::uint8_t {
  failed = 0,
  bootstrapping = 1,
  waiting_for_input = 2,
  transferring = 3,
  success = 4,
};
inline constexpr std::size_t room_state_count = 5;
std::string_view to_string(room_state state) noexcept;

/// How many rooms there are in each state.
class rooms_by_state {
public:
  std::size_t& operator[](room_state state) noexcept {
    return counts_[static_cast<std::size_t>(state)];
  }
  std::size_t operator[](room_state state) const noexcept {
    return counts_[static_cast<std::size_t>(state)];
  }
  bool operator==(const rooms_by_state&) const = default;

private:
  std::array<std::size_t, room_state_count> counts_{};
};

/// What made a room fail; failures are counted by kind.
enum class failure_kind : std::uint8_t {
  aborted,      ///< This worker's engine has given the room up.
  another_rank, ///< Another rank's part of the request has failed; that rank reports the reason.
  memory,       ///< The engine has taken its memory back.
  peer_aborted, ///< The other side has given the room up.
  peer_lost,    ///< A connection to a worker of the other side did not come about, or has ended.
  misfit,       ///< Layouts, ranks, or numbers of pages of the two sides do not go together.
  read,         ///< A read has failed; its lease may stand.
  protocol,     ///< A call or a message came out of order.
  lease,        ///< What was read was refused, because its lease had ended.
};
inline constexpr std::size_t failure_kind_count = 9;
std::string_view to_string(failure_kind kind) noexcept;

/// Why a room has failed.
struct room_failure {
  std::string reason; ///< Sentence for people.
  failure_kind kind = failure_kind::aborted;

  bool from_another_rank() const noexcept { return kind == failure_kind::another_rank; }
  /// Whether this worker did not see the failure itself but heard of it, from its engine or from
  /// the other side.
  bool was_heard() const noexcept {
    return from_another_rank() || kind == failure_kind::peer_aborted;
  }
  bool operator==(const room_failure&) const = default;
};

/// Numbers of a room that is over, which the engine asks for.
struct transfer_metric {
  std::uint64_t bytes = 0;
  std::uint64_t microseconds = 0; ///< Time from the first offer to the last byte.
  bool operator==(const transfer_metric&) const = default;
};

} // namespace peercache::handoff
