#pragma once

#include "common/result.hpp"
#include "discovery/packet.hpp"

#include <string>
#include <string_view>

/// Packets as bytes, little endian:
///
///     packet    u8 wire version | u8 length of the cluster's name | name | u8 kind | body
///     ballot    u64 term | issuer 16
///     endpoint  u8 host length | host | u16 port
///
/// Bodies (discovery/view_codec.hpp has member, view and stamp, discovery/view_difference.hpp has
/// difference):
///
///     join              member | stamp | u8 was_member | u8 forwarded
///
///     refused           u8 why | u16 length | reason
///
///     heartbeat         endpoint | incarnation 16 | stamp | u8 urgent |
///                       u8 heard follows | [incarnation 16]
///
///     heartbeat answer  endpoint | incarnation 16 | stamp | u8 fresh |
///                       u8 in_touch | u8 what follows: 0, 1 or 2 |
///                       [1: view, 2: difference]
///
///     view              view
///
///     view change       endpoint | difference
///
///     leave             incarnation 16
///
///     prepare           endpoint | u64 sender | stamp of the base | ballot
///
///     propose           endpoint | stamp of the base | ballot | u8 inherited | view
///
///     vote              u64 voter | incarnation 16 | stamp of the base | ballot | u8 step |
///                       u8 verdict | u8 successor | ballot promised |
///                       u16 how many are alive | [incarnation 16]... |
///                       u8 accepted follows | [ballot | view]
namespace peercache::discovery {

inline constexpr std::uint8_t packet_wire_version = 8;
inline constexpr std::uint32_t reason_bytes_max = 1024;

/// The bytes of a packet for the cluster of this name. @pre `cluster` has at most 255 bytes
std::string encode_packet(const packet& what, std::string_view cluster);

/// Reads a packet of the cluster of this name. Errors: `incompatible` when version or cluster
/// differ, `invalid_argument` when the bytes are malformed.
result<packet> decode_packet(std::string_view bytes, std::string_view cluster);

} // namespace peercache::discovery
