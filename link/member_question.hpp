#pragma once

#include "common/limits.hpp"
#include "directory/wire.hpp"
#include "link/protocol/disk_wire.hpp"
#include "link/protocol/pool_wire.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What clients ask members besides the look-ups of calls, as frames (net/frame_channel.hpp) on a
/// connection to the look-up port that was greeted with `member_question_magic`. Little endian; any
/// change is another `wire_version`.
///
///   question  offset bytes                       answer    offset bytes
///     number       0     4  chosen by who asks     number       0     4  that of the question
///     kind         4     1                         body         4
///     reserved     5     3  zero
///     body         8
///
/// Answers come in any order, one for each question. Each question is limited in size. The
/// questions of one connection that are not answered yet are limited in number
/// (`member_questions_open_max`) and in bytes: the sum of their `held_bytes_of` (the limit is in
/// actors/serving/lookup_connections.hpp), of which clients use half, except for a single larger
/// question. A member ends a connection that breaks the rules.
namespace peercache::link {

inline constexpr std::uint32_t member_question_magic = 0x31514350; ///< "PCQ1"

enum class member_question : std::uint8_t {
  /// Empty body: says that the member is there. The answer is a pass for look-ups by datagram
  /// (link/lookup_datagram.hpp), or empty.
  hello,
  /// Empty body, or the stamp of a view that the asker knows; the answer is the member's view, or
  /// the difference to it from the view of that stamp (discovery/view_difference.hpp).
  view,
  look_up, ///< Keys; the answer is that of a look-up (directory/wire.hpp).
  /// Keys of pages to remove from the member's pool; the answer has one page_status byte each.
  remove,
  promote,  ///< `u32` milliseconds, and promoted_pages; the answer has their locations.
  warm,     ///< promoted_pages that the member may bring into its pool; the answer is empty.
  used,     ///< used_pages that were READ from the member's pool; the answer is empty.
  withdraw, ///< Records that are false (directory/wire.hpp); the answer is empty.
  hold,     ///< A hold_wish; the answer has one storage::hold_outcome byte for each page.
};
inline constexpr std::uint8_t member_question_kinds = 9;

inline constexpr std::size_t member_questions_open_max = 64;
/// Longest time that a promote may ask for; a caller with more time left asks for this.
inline constexpr std::uint32_t promote_ms_max = 30'000;

struct numbered_question {
  std::uint32_t number = 0;
  member_question kind = member_question::hello;
  std::string_view body; ///< Borrowed from the bytes that were read.
};

/// The payload of a question's frame.
std::string encode_question(const numbered_question& asked);
/// Reads a question. Nothing when the question breaks the rules: by its kind, the size of its body,
/// or too many records.
std::optional<numbered_question> read_question(std::string_view payload) noexcept;

/// The body of a promote.
std::string promote_body(std::uint32_t within_ms, std::string_view pages);
/// How long a promote may take. @pre `read_question` has accepted `body`
std::uint32_t promote_ms(std::string_view body) noexcept;
/// The promoted_pages of a promote. @pre `read_question` has accepted `body`
std::string_view promote_pages(std::string_view body) noexcept;

/// The wish to keep pages from eviction, or to keep them no longer.
///
///   offset bytes
///     0     4  holder   a client's storage::holder_tag
///     4     4  for_ms   0: the holder no longer needs the pages
///     8        pages    used_pages
struct hold_wish {
  std::uint32_t holder = 0;
  std::uint32_t for_ms = 0;
  std::string_view pages; ///< Packed used_pages; borrowed.
};
std::string hold_body(const hold_wish& wish);
/// Reads the body of a hold. @pre `read_question` has accepted `body`
hold_wish hold_of(std::string_view body) noexcept;

inline constexpr std::size_t answer_header_bytes = 4;
/// The payload of an answer's frame.
std::string encode_answer(std::uint32_t number, std::string_view body);
struct numbered_answer {
  std::uint32_t number = 0;
  std::string_view body; ///< Borrowed from the bytes that were read.
};
/// Reads an answer. Nothing when it is too short for its number.
std::optional<numbered_answer> read_answer(std::string_view payload) noexcept;

/// The bytes that a member counts for a question until it is answered: the question's own, those of
/// the longest answer that is likely, and a fixed cost.
std::uint64_t held_bytes_of(member_question kind, std::size_t body_bytes) noexcept;

} // namespace peercache::link
