#include "link/lookup_datagram.hpp"

#include "common/assert.hpp"
#include "common/byte_codec.hpp"
#include "directory/wire.hpp"
#include "link/protocol/gateway.hpp"

#include <cstring>

namespace peercache::link {
namespace {

constexpr std::uint32_t asking_magic = 0x31444350;    ///< "PCD1"
constexpr std::uint32_t answering_magic = 0x32444350; ///< "PCD2"
/// Sides of a nonce: client and node count their datagrams by themselves, under one secret.
constexpr std::uint32_t asking_side = 1;
constexpr std::uint32_t answering_side = 2;

constexpr std::size_t lookup_datagram_frame = datagram_header_bytes + net::datagram_seal::tag_bytes;
static_assert(datagram_keys_max * directory::wire::key_bytes + lookup_datagram_frame <=
                  net::datagram_socket::bytes_max,
              "a question fits a datagram");
static_assert(datagram_keys_max * (1 + directory::wire::location_bytes) <= datagram_body_max,
              "the answer fits a datagram where each page lies on one node");

std::string datagram_header(std::uint32_t magic, std::uint64_t first, std::uint64_t second) {
  std::string bytes;
  bytes.reserve(datagram_header_bytes);
  byte_writer to(bytes);
  to.number(magic);
  to.number(wire_version);
  to.number(first);
  to.number(second);
  PEERCACHE_ASSERT(bytes.size() == datagram_header_bytes);
  return bytes;
}

std::array<char, 16> context_of(const incarnation& owner) noexcept {
  std::array<char, 16> bytes;
  std::memcpy(bytes.data(), &owner.high, 8);
  std::memcpy(bytes.data() + 8, &owner.low, 8);
  return bytes;
}

std::string_view view_of(const std::array<char, 16>& bytes) noexcept {
  return {bytes.data(), bytes.size()};
}

/// The two numbers of a header of this kind.
std::optional<std::pair<std::uint64_t, std::uint64_t>> numbers_of(std::string_view bytes,
                                                                  std::uint32_t magic) noexcept {
  byte_reader from(bytes);
  const bool is_known =
      from.number<std::uint32_t>() == magic && from.number<std::uint32_t>() == wire_version;
  const auto first = from.number<std::uint64_t>();
  const auto second = from.number<std::uint64_t>();
  if (!is_known || !from.ok() || bytes.size() < lookup_datagram_frame ||
      bytes.size() > net::datagram_socket::bytes_max)
    return std::nullopt;
  return std::pair{first, second};
}

} // namespace

std::string encode_pass(const datagram_pass& pass) {
  std::string bytes;
  byte_writer to(bytes);
  to.number(pass.client);
  to.number(pass.secret);
  PEERCACHE_ASSERT(bytes.size() == datagram_pass_bytes);
  return bytes;
}

std::optional<datagram_pass> read_pass(std::string_view bytes) noexcept {
  if (bytes.size() != datagram_pass_bytes)
    return std::nullopt;
  byte_reader from(bytes);
  datagram_pass pass;
  pass.client = from.number<std::uint64_t>();
  pass.secret = from.number<net::datagram_key>();
  return pass;
}

void lookup_datagrams_codec::append_question(std::string& out, const datagram_pass& pass,
                                             const incarnation& owner, std::uint64_t number,
                                             std::string_view keys) {
  const auto header = datagram_header(asking_magic, pass.client, number);
  out.append(header);
  seal_.seal(pass.secret, {asking_side, number}, header, view_of(context_of(owner)), keys, out);
}

void lookup_datagrams_codec::append_answer(std::string& out, const net::datagram_key& secret,
                                           const incarnation& owner, std::uint64_t number,
                                           std::uint64_t nonce, const datagram_answer& answer) {
  PEERCACHE_ASSERT(answer.body.size() <= datagram_body_max);
  const auto header = datagram_header(answering_magic, number, nonce);
  std::string text;
  text.reserve(1 + answer.body.size());
  text.push_back(static_cast<char>(answer.reply));
  text.append(answer.body);
  out.append(header);
  seal_.seal(secret, {answering_side, nonce}, header, view_of(context_of(owner)), text, out);
}

std::optional<datagram_question>
lookup_datagrams_codec::question_of(std::string_view bytes) noexcept {
  const auto numbers = numbers_of(bytes, asking_magic);
  if (!numbers ||
      bytes.size() > lookup_datagram_frame + datagram_keys_max * directory::wire::key_bytes)
    return std::nullopt;
  return datagram_question{numbers->first, numbers->second};
}

std::optional<std::string_view>
lookup_datagrams_codec::open_question(std::string_view bytes, const net::datagram_key& secret,
                                      const incarnation& owner) {
  const auto numbers = numbers_of(bytes, asking_magic);
  PEERCACHE_ASSERT(numbers);
  return seal_.open(secret, {asking_side, numbers->second}, bytes.substr(0, datagram_header_bytes),
                    view_of(context_of(owner)), bytes.substr(datagram_header_bytes));
}

std::optional<std::uint64_t> lookup_datagrams_codec::answered_by(std::string_view bytes) noexcept {
  const auto numbers = numbers_of(bytes, answering_magic);
  return numbers ? std::optional(numbers->first) : std::nullopt;
}

std::optional<datagram_answer> lookup_datagrams_codec::open_answer(std::string_view bytes,
                                                                   const net::datagram_key& secret,
                                                                   const incarnation& owner) {
  const auto numbers = numbers_of(bytes, answering_magic);
  PEERCACHE_ASSERT(numbers);
  const auto text =
      seal_.open(secret, {answering_side, numbers->second}, bytes.substr(0, datagram_header_bytes),
                 view_of(context_of(owner)), bytes.substr(datagram_header_bytes));
  if (!text || text->empty() || static_cast<std::uint8_t>(text->front()) > 1)
    return std::nullopt;
  return datagram_answer{static_cast<lookup_reply>(text->front()), text->substr(1)};
}

} // namespace peercache::link
