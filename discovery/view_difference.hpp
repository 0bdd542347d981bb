#pragma once

#include "common/byte_codec.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"
#include "discovery/view_codec.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::discovery {

inline constexpr std::uint8_t difference_mark = 0x80 | view_format;
/// Bytes of an encoded stamp.
inline constexpr std::size_t stamp_bytes = 32;

/// What a view has that an earlier view, its base, has not, and the other way round. At a thousand
/// members a view takes 48 KB, and the difference that one join, leave or drain makes some hundred
/// bytes.
///
/// A difference is worth nothing without its base: it names the stamp of the base and the digest of
/// the view that it makes, and `apply` checks both. Whoever has no such base needs the whole view.
///
/// Bytes, little endian, of the version `packet_wire_version` (discovery/view_codec.hpp has
/// members, gone members and stamps):
///
///     difference  u8 `difference_mark` | stamp of the base | stamp | u64 digest |
///                 u16 left | [u16 index in the members of the base]... |
///                 u16 came | [member]... |
///                 u8 masters | [u16 index of the master in the members of the view]... |
///                 u8 former masters follow | [u8 former masters | [member]...] |
///                 u8 gone left | [u8 index in the gone of the base]... |
///                 u8 gone came | [gone]...
///
/// The first byte tells a difference from a whole view, so where a reader may be sent either, it is
/// sent the bytes of the one or of the other.
struct view_difference {
  view_stamp base;
  view_stamp stamp;         ///< The stamp of the view that the difference makes.
  std::uint64_t digest = 0; ///< XXH3-64 of the bytes of that view (`encode_view`).
  /// Members of the base that the view has no entry for; ascending indices.
  std::vector<std::uint16_t> left;
  /// Members that the base has not, or has with other contents; by ascending id.
  std::vector<member> came;
  std::vector<std::uint16_t> masters; ///< Indices of the masters in the view's members.
  /// All former masters of the view; empty when they are those of the base.
  std::optional<std::vector<member>> former_masters;
  /// Gone members of the base that the view no longer lists; ascending indices.
  std::vector<std::uint8_t> gone_left;
  std::vector<departed> gone_came; ///< Gone members that the view lists behind those of the base.
  bool operator==(const view_difference&) const = default;
};

/// The difference that makes `next` of `base`. Nothing when it would be no shorter than `next`:
/// when half of the members came, or the gone are not those of `base` and newer ones behind them;
/// nor when `next` is not newer than `base`. @pre `next` is well-formed
std::optional<view_difference> difference_between(const view& base, const view& next);

/// The view that `change` makes of `base`. Nothing unless `base` has the stamp that `change` names,
/// and the view made is well-formed and has the digest that `change` names.
std::optional<view> apply(const view_difference& change, const view& base);

std::string encode_difference(const view_difference& change);
/// Reads a view that was told as a whole (`encode_view`) or as a difference to `known`
/// (`encode_difference`). Errors: `invalid_argument` when the bytes are malformed; `not_found` when
/// they are a difference to another view than `known`.
result<view> decode_told_view(std::string_view bytes, const view& known);
std::string encode_stamp(const view_stamp& stamp);

/// Writes and reads differences as parts of larger messages. Malformed input makes `in.fail()`
/// true. A difference that was read may still fail to apply.
void write_difference(byte_writer& out, const view_difference& change);
view_difference read_difference(byte_reader& in);

} // namespace peercache::discovery
