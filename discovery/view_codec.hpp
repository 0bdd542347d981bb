#pragma once

#include "common/byte_codec.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"

#include <string>
#include <string_view>

///
/// Members and views as bytes, little endian:
///
///     member  u8 name length | name | u8 host length | host | incarnation 16 |
///             u16 control port | u16 data port | u16 HTTP port | u16 look-up port |
///             u8 rails | u8 draining (0 or 1)
///
///     view    u8 format | u64 term | u64 version | issuer 16 | u16 members | [member]... |
///             u8 masters | [u16 index of the master in members]... |
///             u8 former masters | [member]... | u8 gone | [gone]...
///
///     gone    u8 name length | name | u8 host length | host | u16 control port |
///             u64 since, Unix time in ms | u8 why
///
///     stamp   u64 term | u64 version | issuer 16
///
/// A member's id is not carried: it follows from the name. Members and former masters are sorted by
/// ascending id, and no two in a list have the same incarnation. A view without former masters is
/// not a fragment. The gone have different names, none of them a member's.
///
/// Encoders assert that names and counts keep their limits, which the configuration and the
/// admission of members ensure. Decoders check every length before they take memory, accept exactly
/// what the encoders write, and never throw.
namespace peercache::discovery {

inline constexpr std::uint8_t view_format = 5;
inline constexpr std::uint32_t masters_max = 64;
inline constexpr std::uint32_t host_bytes_max = 255;
/// The highest term and the highest version that are accepted. Higher numbers are forged: a cluster
/// with a new term every millisecond gets there after 100 million years.
inline constexpr std::uint64_t term_max = std::uint64_t{1} << 62;

std::string encode_member(const member& who);
result<member> decode_member(std::string_view bytes);

std::string encode_view(const view& what);
result<view> decode_view(std::string_view bytes);

/// Functions that write and read members, views and their parts inside larger messages. Malformed
/// input makes `in.fail()` true.
void write_member(byte_writer& out, const member& who);
member read_member(byte_reader& in);
void write_view(byte_writer& out, const view& what);
view read_view(byte_reader& in);
void write_departed(byte_writer& out, const departed& who);
departed read_departed(byte_reader& in);
void write_stamp(byte_writer& out, const view_stamp& stamp);
view_stamp read_stamp(byte_reader& in);
/// Whether `what` keeps the limits and rules of views, as far as they are not those of its single
/// members and gone members.
bool is_well_formed(const view& what);
/// Whether `name` can name a node or host: printable ASCII without spaces, and not empty. The
/// configuration demands the same, so logs and JSON can show every name.
bool is_printable_name(std::string_view name) noexcept;

} // namespace peercache::discovery
