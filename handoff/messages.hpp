#pragma once

#include "common/ids.hpp"
#include "common/result.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/layout_codec.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/room_ids.hpp"
#include "handoff/room_state.hpp"
#include "handoff/transfer_messages.hpp"
#include "handoff/transfer_plan.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

/// Version of the messages between workers. A frame holds one message: a byte that names its kind,
/// then its fields in the order of its struct, little endian. Any change takes another version.
///
///   text               1 byte length, then the characters
///   bool, enum         1 byte; any other value than those that exist is malformed
///   list of items      4 bytes count, then the items
///   lease              slot 4, generation 8, key 32
///   buffer             address 8, length 8, item 4, layer 4
///
/// The kind and the version of a hello never change their places, nor does anything in a refusal:
/// so a worker can tell another version from garbage, and can read why it was refused. Decoders
/// take no memory for a count whose items the message does not have.
namespace peercache::handoff {

inline constexpr std::uint32_t handoff_wire_version = 4;

/// Length of the longest message: an offer with all components of states over the longest sequence.
/// Only prefill sends offers.
inline constexpr std::size_t message_bytes_max =
    (limits::state_components_max + 1) * std::size_t{limits::room_pages_max} * 4;
/// Length of the longest message that is not an offer: a layout.
inline constexpr std::size_t short_message_bytes_max = 1 + layout_bytes_max;

/// A prefill worker shares rooms with decode workers; a transfer worker talks only to other
/// transfer workers.
enum class engine_side : std::uint8_t { prefill = 1, decode = 2, transfer = 3 };
std::string_view to_string(engine_side side) noexcept;

/// The side of the workers that a worker of `side` talks to.
constexpr engine_side other_side(engine_side side) noexcept {
  if (side == engine_side::transfer)
    return side;
  return side == engine_side::prefill ? engine_side::decode : engine_side::prefill;
}

/// Length of the longest message that a worker of this side sends.
constexpr std::size_t message_bytes_max_of(engine_side side) noexcept {
  return side == engine_side::prefill ? message_bytes_max : short_message_bytes_max;
}

/// The first message that each of two connected workers sends: who the worker is, and where its
/// pages are served.
struct hello {
  engine_side side = engine_side::prefill;
  incarnation process;
  node_id node;
  std::uint16_t data_port = 0; ///< Port of the page server; 0 with decode, which serves nothing.
  /// Rails on which pages are served; 0 when pages are served over TCP only.
  std::uint8_t rails = 0;
  std::string cluster; ///< At most `limits::cluster_bytes_max` bytes of printable ASCII.
  /// Numeric address of the page server; empty when that is the address at which the worker was
  /// dialed.
  std::string data_host = {};
  bool operator==(const hello&) const = default;
};

/// Message from decode: decode has allocated pages for the room, and wants to read prefill's pages
/// into them.
struct join {
  room_id room;
  join_id id;
  /// Pages that decode already has; offers begin behind these pages.
  std::uint32_t prefix_pages = 0;
  std::uint32_t page_count = 0; ///< Pages that decode has allocated behind the prefix.
  bool dummy = false; ///< Nothing will be read: no offers are wanted, and `done` will say 0 bytes.
  /// Decode workers, this one included, that join the room at this prefill worker.
  std::uint32_t receivers = 1;
  bool operator==(const join&) const = default;
};

/// Message from prefill: these pages are complete, and may be read while the lease stands.
struct offer {
  room_id room;
  join_id id; ///< Id of the join that the offer answers.
  lease under;
  offered_pages pages;
  bool operator==(const offer&) const = default;
};

/// Message from decode: all bytes that the room's offers promised have arrived and were judged
/// good.
struct done {
  room_id room;
  join_id id;
  std::uint64_t bytes = 0;
  std::uint64_t microseconds = 0; ///< Time from the first offer to the last piece.
  bool operator==(const done&) const = default;
};

/// Message from either side: the room has failed.
struct abort {
  room_id room;
  join_id id;
  std::string reason; ///< Text for people, of at most `limits::reason_bytes_max` bytes.
  bool heard = false; ///< The failure began at another worker, which reports the reason itself.
  bool operator==(const abort&) const = default;
};

/// The kind of failure of a room whose other side has sent this abort.
constexpr failure_kind kind_of(const abort& said) noexcept {
  return said.heard ? failure_kind::another_rank : failure_kind::peer_aborted;
}

/// Message from either side, sent at intervals: the process lives.
struct beat {
  bool operator==(const beat&) const = default;
};

/// Last message from either side: the worker does not want this connection.
struct refusal {
  std::string reason; ///< Text for people, of at most `limits::reason_bytes_max` bytes.
  bool operator==(const refusal&) const = default;
};

using message =
    std::variant<hello, kv_layout, join, offer, done, abort, beat, refusal, transfer_write,
                 transfer_read, transfer_lent, transfer_ended, transfer_stop>;

/// Encodes a message as it is sent. Texts that are too long are cut.
/// @pre the lists of the message are within their limits
std::string encode(const message& sent);

/// Decodes a message. Its texts are made `printable`. Errors: `incompatible` for a hello of another
/// version, which the error names; `invalid_argument` for bytes that `encode` does not make, and
/// for a layout that `check` refuses.
result<message> decode(std::string_view bytes);

} // namespace peercache::handoff
