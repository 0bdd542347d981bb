#include "discovery/packet_codec.hpp"

#include "common/assert.hpp"
#include "common/byte_codec.hpp"
#include "common/limits.hpp"
#include "discovery/view_codec.hpp"

namespace peercache::discovery {

namespace {

/// The number of each packet type in the wire format.
template <class Packet>
constexpr std::uint8_t kind_of = 0;
template <>
constexpr std::uint8_t kind_of<join_packet> = 1;
template <>
constexpr std::uint8_t kind_of<refused_packet> = 2;
template <>
constexpr std::uint8_t kind_of<heartbeat_packet> = 3;
template <>
constexpr std::uint8_t kind_of<heartbeat_answer_packet> = 4;
template <>
constexpr std::uint8_t kind_of<view_packet> = 5;
template <>
constexpr std::uint8_t kind_of<leave_packet> = 6;
template <>
constexpr std::uint8_t kind_of<prepare_packet> = 7;
template <>
constexpr std::uint8_t kind_of<propose_packet> = 8;
template <>
constexpr std::uint8_t kind_of<vote_packet> = 9;
template <>
constexpr std::uint8_t kind_of<view_change_packet> = 10;
static_assert(kind_of<view_change_packet> == std::variant_size_v<packet>,
              "each packet has its number");
/// In a heartbeat answer: which form of the newer view follows; 0: none.
constexpr std::uint8_t view_is_whole = 1;
constexpr std::uint8_t view_is_change = 2;
static_assert(limits::members_max <= UINT16_MAX && reason_bytes_max <= UINT16_MAX,
              "their numbers are two bytes");

void write_endpoint(byte_writer& out, const endpoint& at) {
  out.short_text(at.host);
  out.number(at.port);
}

endpoint read_endpoint(byte_reader& in) {
  endpoint at;
  at.host = in.short_text();
  at.port = in.number<std::uint16_t>();
  if (!is_printable_name(at.host))
    in.fail();
  return at;
}

void write_ballot(byte_writer& out, const ballot& attempt) {
  out.number(attempt.term);
  out.id(attempt.issuer);
}

ballot read_ballot(byte_reader& in) {
  ballot attempt;
  attempt.term = in.number<std::uint64_t>();
  attempt.issuer = in.id();
  if (attempt.term > term_max)
    in.fail();
  return attempt;
}

/// Reads one byte that must lie from 1 to `last`; any other value makes the read fail.
std::uint8_t read_choice(byte_reader& in, std::uint8_t last) {
  auto value = in.number<std::uint8_t>();
  if (value == 0 || value > last)
    in.fail();
  return value;
}

bool read_flag(byte_reader& in) {
  auto value = in.number<std::uint8_t>();
  if (value > 1)
    in.fail();
  return value == 1;
}

void write_body(byte_writer& out, const join_packet& p) {
  write_member(out, p.who);
  write_stamp(out, p.known);
  out.number(static_cast<std::uint8_t>(p.was_member));
  out.number(static_cast<std::uint8_t>(p.forwarded));
}

void write_body(byte_writer& out, const refused_packet& p) {
  out.number(static_cast<std::uint8_t>(p.why));
  auto reason = std::string_view(p.reason).substr(0, reason_bytes_max);
  out.number(static_cast<std::uint16_t>(reason.size()));
  out.text(reason);
}

void write_body(byte_writer& out, const heartbeat_packet& p) {
  write_endpoint(out, p.from);
  out.id(p.inc);
  write_stamp(out, p.known);
  out.number(static_cast<std::uint8_t>(p.urgent));
  out.number(static_cast<std::uint8_t>(p.heard.has_value()));
  if (p.heard)
    out.id(*p.heard);
}

void write_body(byte_writer& out, const heartbeat_answer_packet& p) {
  write_endpoint(out, p.from);
  out.id(p.inc);
  write_stamp(out, p.known);
  out.number(static_cast<std::uint8_t>(p.fresh));
  out.number(static_cast<std::uint8_t>(p.in_touch));
  PEERCACHE_ASSERT(!p.newer || !p.change); // An answer brings its view in one form.
  out.number(static_cast<std::uint8_t>(p.newer ? view_is_whole : p.change ? view_is_change : 0));
  if (p.newer)
    write_view(out, *p.newer);
  else if (p.change)
    write_difference(out, *p.change);
}

void write_body(byte_writer& out, const view_packet& p) {
  write_view(out, p.latest);
}

void write_body(byte_writer& out, const view_change_packet& p) {
  write_endpoint(out, p.from);
  write_difference(out, p.change);
}

void write_body(byte_writer& out, const leave_packet& p) {
  out.id(p.inc);
}

void write_body(byte_writer& out, const prepare_packet& p) {
  write_endpoint(out, p.from);
  out.number(p.who.value);
  write_stamp(out, p.base);
  write_ballot(out, p.attempt);
}

void write_body(byte_writer& out, const propose_packet& p) {
  write_endpoint(out, p.from);
  write_stamp(out, p.base);
  write_ballot(out, p.attempt);
  out.number(static_cast<std::uint8_t>(p.inherited));
  write_view(out, p.value);
}

void write_body(byte_writer& out, const vote_packet& p) {
  out.number(p.voter.value);
  out.id(p.inc);
  write_stamp(out, p.base);
  write_ballot(out, p.attempt);
  out.number(static_cast<std::uint8_t>(p.step));
  out.number(static_cast<std::uint8_t>(p.answer));
  out.number(static_cast<std::uint8_t>(p.successor));
  write_ballot(out, p.promised);
  PEERCACHE_ASSERT(p.alive.size() <= limits::members_max); // A decoder refuses a longer list.
  out.number(static_cast<std::uint16_t>(p.alive.size()));
  for (const auto& inc : p.alive)
    out.id(inc);
  out.number(static_cast<std::uint8_t>(p.accepted.has_value()));
  if (!p.accepted)
    return;
  write_ballot(out, p.accepted->in);
  write_view(out, p.accepted->value);
}

join_packet read_join(byte_reader& in) {
  join_packet p;
  p.who = read_member(in);
  p.known = read_stamp(in);
  p.was_member = read_flag(in);
  p.forwarded = read_flag(in);
  return p;
}

refused_packet read_refused(byte_reader& in) {
  const auto why = in.number<std::uint8_t>();
  if (why < static_cast<std::uint8_t>(refusal::name_taken) ||
      why > static_cast<std::uint8_t>(refusal::malformed))
    in.fail();
  auto length = in.number<std::uint16_t>();
  if (length > reason_bytes_max)
    in.fail();
  return {static_cast<refusal>(why), std::string(in.take(length))};
}

heartbeat_packet read_heartbeat(byte_reader& in) {
  heartbeat_packet p;
  p.from = read_endpoint(in);
  p.inc = in.id();
  p.known = read_stamp(in);
  p.urgent = read_flag(in);
  if (read_flag(in))
    p.heard = in.id();
  return p;
}

heartbeat_answer_packet read_heartbeat_answer(byte_reader& in) {
  heartbeat_answer_packet p;
  p.from = read_endpoint(in);
  p.inc = in.id();
  p.known = read_stamp(in);
  p.fresh = read_flag(in);
  p.in_touch = read_flag(in);
  const auto follows = in.number<std::uint8_t>();
  if (follows == view_is_whole)
    p.newer = read_view(in);
  else if (follows == view_is_change)
    p.change = read_difference(in);
  else if (follows != 0)
    in.fail();
  return p;
}

view_change_packet read_view_change(byte_reader& in) {
  view_change_packet p;
  p.from = read_endpoint(in);
  p.change = read_difference(in);
  return p;
}

prepare_packet read_prepare(byte_reader& in) {
  prepare_packet p;
  p.from = read_endpoint(in);
  p.who.value = in.number<std::uint64_t>();
  p.base = read_stamp(in);
  p.attempt = read_ballot(in);
  return p;
}

propose_packet read_propose(byte_reader& in) {
  propose_packet p;
  p.from = read_endpoint(in);
  p.base = read_stamp(in);
  p.attempt = read_ballot(in);
  p.inherited = read_flag(in);
  p.value = read_view(in);
  return p;
}

vote_packet read_vote(byte_reader& in) {
  vote_packet p;
  p.voter.value = in.number<std::uint64_t>();
  p.inc = in.id();
  p.base = read_stamp(in);
  p.attempt = read_ballot(in);
  p.step = static_cast<voting_step>(read_choice(in, 2));
  p.answer = static_cast<verdict>(read_choice(in, 3));
  p.successor = read_flag(in);
  p.promised = read_ballot(in);
  const auto alive = in.number<std::uint16_t>();
  if (alive > limits::members_max)
    in.fail();
  for (std::uint16_t i = 0; i < alive && in.ok(); ++i)
    p.alive.push_back(in.id());
  if (!read_flag(in))
    return p;
  auto attempt = read_ballot(in);
  p.accepted = accepted_view{attempt, read_view(in)};
  return p;
}

packet read_body(byte_reader& in, std::uint8_t kind) {
  switch (kind) {
  case kind_of<join_packet>:
    return read_join(in);
  case kind_of<refused_packet>:
    return read_refused(in);
  case kind_of<heartbeat_packet>:
    return read_heartbeat(in);
  case kind_of<heartbeat_answer_packet>:
    return read_heartbeat_answer(in);
  case kind_of<view_packet>:
    return view_packet{read_view(in)};
  case kind_of<leave_packet>:
    return leave_packet{in.id()};
  case kind_of<prepare_packet>:
    return read_prepare(in);
  case kind_of<propose_packet>:
    return read_propose(in);
  case kind_of<vote_packet>:
    return read_vote(in);
  case kind_of<view_change_packet>:
    return read_view_change(in);
  default:
    in.fail();
    return leave_packet{};
  }
}

} // namespace

std::string encode_packet(const packet& what, std::string_view cluster) {
  std::string bytes;
  byte_writer out(bytes);
  out.number(packet_wire_version);
  out.short_text(cluster);
  std::visit(
      [&out]<class Packet>(const Packet& p) {
        out.number(kind_of<Packet>);
        write_body(out, p);
      },
      what);
  return bytes;
}

result<packet> decode_packet(std::string_view bytes, std::string_view cluster) {
  byte_reader in(bytes);
  auto version = in.number<std::uint8_t>();
  if (in.ok() && version != packet_wire_version)
    return error{errc::incompatible, "a peer speaks wire version " + std::to_string(version) +
                                         ", this node " + std::to_string(packet_wire_version)};
  auto name = in.short_text();
  if (in.ok() && name != cluster)
    return error{errc::incompatible, "a peer belongs to cluster '" + std::string(name) +
                                         "', this node to '" + std::string(cluster) + "'"};
  auto body = read_body(in, in.number<std::uint8_t>());
  if (!in.finished())
    return error{errc::invalid_argument,
                 "a membership packet of " + std::to_string(bytes.size()) + " bytes is malformed"};
  return body;
}

} // namespace peercache::discovery
