#include "link/member_question.hpp"

#include "common/byte_codec.hpp"
#include "discovery/view_difference.hpp"

#include <algorithm>

namespace peercache::link {
namespace {

constexpr std::size_t header_bytes = 8;
constexpr std::size_t promote_ms_bytes = 4;
constexpr std::size_t hold_header_bytes = 8;
constexpr std::uint64_t fixed_cost_bytes = 512;
/// Bytes that the answer to a `view` question is counted with: those of about a thousand members. A
/// longer view is counted when it is sent.
constexpr std::uint64_t view_bytes = 65536;

/// Whether `bytes` are whole records of `record_bytes`, at most `records_max` of them.
constexpr bool fits(std::size_t bytes, std::size_t record_bytes, std::size_t records_max) noexcept {
  return bytes % record_bytes == 0 && bytes / record_bytes <= records_max;
}

bool is_promote(std::string_view body) noexcept {
  return body.size() >= promote_ms_bytes && promote_ms(body) <= promote_ms_max &&
         fits(body.size() - promote_ms_bytes, sizeof(promoted_page), limits::batch_pages_max);
}

bool is_hold(std::string_view body) noexcept {
  return body.size() >= hold_header_bytes &&
         fits(body.size() - hold_header_bytes, sizeof(used_page), limits::batch_pages_max);
}

bool is_body_of(member_question kind, std::string_view body) noexcept {
  switch (kind) {
  case member_question::hello:
    return body.empty();
  case member_question::view:
    return body.empty() || body.size() == discovery::stamp_bytes;
  case member_question::look_up:
  case member_question::remove:
    return fits(body.size(), directory::wire::key_bytes, limits::batch_pages_max);
  case member_question::promote:
    return is_promote(body);
  case member_question::warm:
    return fits(body.size(), sizeof(promoted_page), limits::batch_pages_max);
  case member_question::used:
    return fits(body.size(), sizeof(used_page), used_pages_max);
  case member_question::withdraw:
    return fits(body.size(), directory::wire::withdraw_record_bytes, limits::batch_pages_max);
  case member_question::hold:
    return is_hold(body);
  }
  return false;
}

/// Bytes of the longest answer to a look-up, per key: all locations that a key may have.
constexpr std::uint64_t places_bytes =
    1 + limits::locations_per_key_max * directory::wire::location_bytes;

std::uint64_t answer_bytes_of(member_question kind, std::size_t body_bytes) noexcept {
  switch (kind) {
  case member_question::view:
    return view_bytes;
  case member_question::look_up:
    return body_bytes / directory::wire::key_bytes * places_bytes;
  case member_question::remove:
    return body_bytes / directory::wire::key_bytes;
  case member_question::promote:
    return body_bytes / sizeof(promoted_page) * (1 + directory::wire::location_bytes);
  case member_question::hold:
    return body_bytes / sizeof(used_page);
  default:
    return 0;
  }
}

} // namespace

std::string encode_question(const numbered_question& asked) {
  std::string bytes;
  bytes.reserve(header_bytes + asked.body.size());
  byte_writer out(bytes);
  out.number(asked.number);
  out.number(static_cast<std::uint8_t>(asked.kind));
  out.number(std::uint8_t{0});
  out.number(std::uint16_t{0});
  out.text(asked.body);
  return bytes;
}

std::optional<numbered_question> read_question(std::string_view payload) noexcept {
  byte_reader in(payload);
  numbered_question asked;
  asked.number = in.number<std::uint32_t>();
  const auto kind = in.number<std::uint8_t>();
  const bool is_padded = in.number<std::uint8_t>() == 0 && in.number<std::uint16_t>() == 0;
  if (!in.ok() || !is_padded || kind >= member_question_kinds)
    return std::nullopt;
  asked.kind = static_cast<member_question>(kind);
  asked.body = payload.substr(header_bytes);
  if (!is_body_of(asked.kind, asked.body))
    return std::nullopt;
  return asked;
}

std::string promote_body(std::uint32_t within_ms, std::string_view pages) {
  std::string body;
  body.reserve(promote_ms_bytes + pages.size());
  byte_writer out(body);
  out.number(std::min(within_ms, promote_ms_max));
  out.text(pages);
  return body;
}

std::uint32_t promote_ms(std::string_view body) noexcept {
  return byte_reader(body).number<std::uint32_t>();
}

std::string_view promote_pages(std::string_view body) noexcept {
  return body.substr(promote_ms_bytes);
}

std::string hold_body(const hold_wish& wish) {
  std::string body;
  body.reserve(hold_header_bytes + wish.pages.size());
  byte_writer out(body);
  out.number(wish.holder);
  out.number(wish.for_ms);
  out.text(wish.pages);
  return body;
}

hold_wish hold_of(std::string_view body) noexcept {
  byte_reader in(body);
  hold_wish wish;
  wish.holder = in.number<std::uint32_t>();
  wish.for_ms = in.number<std::uint32_t>();
  wish.pages = body.substr(hold_header_bytes);
  return wish;
}

std::string encode_answer(std::uint32_t number, std::string_view body) {
  std::string bytes;
  bytes.reserve(answer_header_bytes + body.size());
  byte_writer out(bytes);
  out.number(number);
  out.text(body);
  return bytes;
}

std::optional<numbered_answer> read_answer(std::string_view payload) noexcept {
  if (payload.size() < answer_header_bytes)
    return std::nullopt;
  return numbered_answer{byte_reader(payload).number<std::uint32_t>(),
                         payload.substr(answer_header_bytes)};
}

std::uint64_t held_bytes_of(member_question kind, std::size_t body_bytes) noexcept {
  return fixed_cost_bytes + header_bytes + body_bytes + answer_bytes_of(kind, body_bytes);
}

} // namespace peercache::link
