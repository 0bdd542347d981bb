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

/// What workers say to each other, one message a frame: a byte that says which, then its fields in
/// the order of their struct, little endian. Any change is another `handoff_wire_version`.
///
///   text               1 byte length, then the characters
///   bool, enum         1 byte; any other value than those that exist is malformed
///   list of items      4 bytes count, then the items
///   lease              slot 4, generation 8, key 32
///   buffer             address 8, length 8, item 4, layer 4
///
/// The type and the version of a hello stay where they are for ever, and so does all of a refusal,
/// so that another version is told from rubbish and why it was refused can be read. Decoders take
/// no memory for a count whose items the message does not have.
namespace peercache::handoff {

inline constexpr std::uint32_t handoff_wire_version = 4;

/// The longest message: an offer with all components of states over the longest sequence. Only
/// prefill sends it.
inline constexpr std::size_t message_bytes_max =
    (limits::state_components_max + 1) * std::size_t{limits::room_pages_max} * 4;
/// The longest message apart from offers: a layout.
inline constexpr std::size_t short_message_bytes_max = 1 + layout_bytes_max;

/// A prefill worker shares rooms with decode workers; a transfer worker talks only to other
/// transfer workers.
enum class engine_side : std::uint8_t { prefill = 1, decode = 2, transfer = 3 };
std::string_view to_string(engine_side side) noexcept;

/// The side of the workers that one of this side talks to.
constexpr engine_side other_side(engine_side side) noexcept {
  if (side == engine_side::transfer)
    return side;
  return side == engine_side::prefill ? engine_side::decode : engine_side::prefill;
}

/// The longest message of a worker of this side.
constexpr std::size_t message_bytes_max_of(engine_side side) noexcept {
  return side == engine_side::prefill ? message_bytes_max : short_message_bytes_max;
}

/// Both workers say this first: who they are, and where their pages are served.
struct hello {
  engine_side side = engine_side::prefill;
  incarnation process;
  node_id node;
  std::uint16_t data_port = 0; ///< Port of the page server; 0 with decode, which serves nothing.
  std::uint8_t rails = 0;      ///< Rails on which pages are served; 0: TCP only.
  std::string cluster;         ///< At most `limits::cluster_bytes_max` bytes of printable ASCII.
  /// Numeric address of the page server; empty when it is the one at which the worker was dialed.
  std::string data_host = {};
  bool operator==(const hello&) const = default;
};

/// From decode: its room has pages, and wants those of prefill.
struct join {
  room_id room;
  join_id id;
  std::uint32_t prefix_pages = 0; ///< Pages that decode has already; offers begin behind them.
  std::uint32_t page_count = 0;   ///< Pages that decode has allocated behind the prefix.
  bool dummy = false; ///< Nothing will be read: no offers are wanted, and `done` says 0 bytes.
  /// Decode workers, this one included, that join the room at this prefill worker.
  std::uint32_t receivers = 1;
  bool operator==(const join&) const = default;
};

/// From prefill: these pages are complete, and may be read while the lease stands.
struct offer {
  room_id room;
  join_id id; ///< The id of the join that it answers.
  lease under;
  offered_pages pages;
  bool operator==(const offer&) const = default;
};

/// From decode: all that the room's offers promised has arrived and was judged.
struct done {
  room_id room;
  join_id id;
  std::uint64_t bytes = 0;
  std::uint64_t microseconds = 0; ///< From the first offer to the last piece.
  bool operator==(const done&) const = default;
};

/// From either side: the room has failed.
struct abort {
  room_id room;
  join_id id;
  std::string reason; ///< For people: at most `limits::reason_bytes_max` bytes.
  bool heard = false; ///< The failure began at another worker, which tells the reason itself.
  bool operator==(const abort&) const = default;
};

/// What makes a room fail whose other side has said this.
constexpr failure_kind kind_of(const abort& said) noexcept {
  return said.heard ? failure_kind::another_rank : failure_kind::peer_aborted;
}

/// From either side, again and again: the process lives.
struct beat {
  bool operator==(const beat&) const = default;
};

/// From either side, and its last words: it wants no connection with this worker.
struct refusal {
  std::string reason; ///< For people: at most `limits::reason_bytes_max` bytes.
  bool operator==(const refusal&) const = default;
};

using message =
    std::variant<hello, kv_layout, join, offer, done, abort, beat, refusal, transfer_write,
                 transfer_read, transfer_lent, transfer_ended, transfer_stop>;

/// The message as it travels. Texts that are too long are cut.
/// @pre lists are within their limits
std::string encode(const message& sent);

/// Texts are `printable`: what else a peer has put into them is replaced. Errors: `incompatible`,
/// for a hello of another version, which is named; `invalid_argument` for whatever `encode` does
/// not make, and for a layout that `check` refuses.
result<message> decode(std::string_view bytes);

} // namespace peercache::handoff
