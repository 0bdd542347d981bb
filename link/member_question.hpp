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
/// Answers come in any order, one for each question. Each question has a limit, and so have those
/// of one connection that are not answered yet: `member_questions_open_max`, and for their bytes
/// (`held_bytes_of`) what the member holds for a connection (actors/lookup_broker.hpp), of which
/// clients use half but for single large questions. A member ends a connection that breaks the
/// rules.
namespace peercache::link {

inline constexpr std::uint32_t member_question_magic = 0x31514350; ///< "PCQ1"

enum class member_question : std::uint8_t {
  hello,    ///< Empty body and answer: says that the member is there.
  view,     ///< Empty body; the answer is the member's view (discovery/view_codec.hpp).
  look_up,  ///< Keys; the answer is that of a look-up (directory/wire.hpp).
  remove,   ///< Keys of pages that are to go from the member's pool; one page_status byte each.
  promote,  ///< `u32` milliseconds, and promoted_pages; the answer has their locations.
  warm,     ///< promoted_pages that the member may bring into its pool; the answer is empty.
  used,     ///< used_pages; the answer is empty.
  withdraw, ///< Records that are false (directory/wire.hpp); the answer is empty.
  hold,     ///< A hold_wish; one storage::hold_outcome byte for each page.
};
inline constexpr std::uint8_t member_question_kinds = 9;

inline constexpr std::size_t member_questions_open_max = 64;
/// Longest time that a promote may ask for; one with more of it left is sent with this.
inline constexpr std::uint32_t promote_ms_max = 30'000;

struct numbered_question {
  std::uint32_t number = 0;
  member_question kind = member_question::hello;
  std::string_view body; ///< Borrowed from the bytes that were read.
};

/// The payload of a question's frame.
std::string encode_question(const numbered_question& asked);
/// Reads a question. Nothing when it breaks the rules: its kind, the size of its body, too many
/// records.
std::optional<numbered_question> read_question(std::string_view payload) noexcept;

/// The body of a promote.
std::string promote_body(std::uint32_t within_ms, std::string_view pages);
/// How long a promote may take. @pre `read_question` took it
std::uint32_t promote_ms(std::string_view body) noexcept;
/// The promoted_pages of a promote. @pre `read_question` took it
std::string_view promote_pages(std::string_view body) noexcept;

/// Keep pages from eviction, or no longer.
///
///   offset bytes
///     0     4  holder   a client's storage::holder_tag
///     4     4  for_ms   0: the holder no longer needs them
///     8        pages    used_pages
struct hold_wish {
  std::uint32_t holder = 0;
  std::uint32_t for_ms = 0;
  std::string_view pages; ///< Borrowed.
};
std::string hold_body(const hold_wish& wish);
/// @pre `read_question` took the body
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

/// The bytes that a member counts for a question until it is answered: the question, the longest
/// answer that it is likely to get, and what the question costs besides.
std::uint64_t held_bytes_of(member_question kind, std::size_t body_bytes) noexcept;

} // namespace peercache::link
