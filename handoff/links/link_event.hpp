#pragma once

#include "handoff/messages.hpp"
#include "handoff/peer_id.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace peercache::handoff {

/// Why a connection between two workers has ended.
enum class loss_reason : std::uint8_t {
  unreachable = 1, ///< No connection came about.
  refused,         ///< One of the two workers has refused the other.
  closed,          ///< The other side has ended it, or its process has died.
  silent,          ///< Nothing has come from the other side for too long.
  malformed,       ///< The other side sent bytes that no worker sends.
  queue_full,      ///< The other side does not read what it is sent.
};

std::string_view to_string(loss_reason reason) noexcept;

/// The peer has said hello, and was accepted.
struct peer_joined {
  peer_id peer;
  hello who;
  bool operator==(const peer_joined&) const = default;
};

struct peer_said {
  peer_id peer;
  message what;
  bool operator==(const peer_said&) const = default;
};

/// The connection has ended, and nothing more comes from this peer.
struct peer_lost {
  peer_id peer;
  loss_reason reason = loss_reason::closed;
  std::string detail; ///< Sentence for people.
  bool operator==(const peer_lost&) const = default;
};

using link_event = std::variant<peer_joined, peer_said, peer_lost>;

} // namespace peercache::handoff
