#include "handoff/messages.hpp"

#include "common/assert.hpp"
#include "common/byte_codec.hpp"
#include "common/printable.hpp"
#include "handoff/layout_codec.hpp"
#include "handoff/lease_codec.hpp"
#include "handoff/transfer_codec.hpp"

#include <cstring>
#include <span>
#include <utility>

namespace peercache::handoff {
namespace {

/// The byte that says which message follows.
enum class kind : std::uint8_t {
  hello = 1,
  layout,
  join,
  offer,
  done,
  abort,
  beat,
  refusal,
  transfer_write,
  transfer_read,
  transfer_lent,
  transfer_ended,
  transfer_stop
};

void append_items(byte_writer& out, std::span<const std::uint32_t> items) {
  out.number(static_cast<std::uint32_t>(items.size()));
  out.text({reinterpret_cast<const char*>(items.data()), items.size_bytes()});
}

std::vector<std::uint32_t> read_items(byte_reader& in, std::uint32_t most) {
  const auto count = in.number<std::uint32_t>();
  if (count > most)
    in.fail();
  const auto bytes = in.take(in.ok() ? std::size_t{count} * sizeof(std::uint32_t) : 0);
  std::vector<std::uint32_t> items(bytes.size() / sizeof(std::uint32_t));
  if (!items.empty())
    std::memcpy(items.data(), bytes.data(), bytes.size());
  return items;
}

/// Reads a text of a peer and makes it printable, because it may be logged.
std::string read_text(byte_reader& in) {
  return printable(std::string(in.short_text()));
}

// -- one pair of functions for each message

void append(byte_writer& out, const hello& sent) {
  out.number(kind::hello);
  out.number(handoff_wire_version);
  out.number(sent.side);
  out.id(sent.process);
  out.number(sent.node.value);
  out.number(sent.data_port);
  out.number(sent.rails);
  out.short_text(std::string_view(sent.cluster).substr(0, limits::cluster_bytes_max));
  out.short_text(std::string_view(sent.data_host).substr(0, limits::host_bytes_max));
}

message read_hello(byte_reader& in) {
  hello sent;
  sent.side = in.number<engine_side>();
  sent.process = in.id();
  sent.node.value = in.number<std::uint64_t>();
  sent.data_port = in.number<std::uint16_t>();
  sent.rails = in.number<std::uint8_t>();
  sent.cluster = read_text(in);
  sent.data_host = read_text(in);
  if (sent.side < engine_side::prefill || sent.side > engine_side::transfer ||
      sent.process == incarnation{})
    in.fail();
  return sent;
}

void append(byte_writer& out, const kv_layout& sent) {
  out.number(kind::layout);
  append_layout(out, sent);
}

void append(byte_writer& out, const join& sent) {
  out.number(kind::join);
  out.number(sent.room.value);
  out.number(sent.id.value);
  out.number(sent.prefix_pages);
  out.number(sent.page_count);
  out.number(static_cast<std::uint8_t>(sent.dummy));
  out.number(sent.receivers);
}

message read_join(byte_reader& in) {
  join sent;
  sent.room.value = in.number<std::uint64_t>();
  sent.id.value = in.number<std::uint64_t>();
  sent.prefix_pages = in.number<std::uint32_t>();
  sent.page_count = in.number<std::uint32_t>();
  sent.dummy = in.boolean();
  sent.receivers = in.number<std::uint32_t>();
  if (sent.prefix_pages > limits::room_pages_max || sent.page_count > limits::room_pages_max ||
      sent.receivers == 0 || sent.receivers > limits::ranks_max)
    in.fail();
  return sent;
}

void append(byte_writer& out, const offer& sent) {
  const auto& pages = sent.pages;
  PEERCACHE_ASSERT(pages.pages.size() <= limits::offer_pages_max);
  PEERCACHE_ASSERT(pages.states.size() <= limits::state_components_max);
  out.number(kind::offer);
  out.number(sent.room.value);
  out.number(sent.id.value);
  append_lease(out, sent.under);
  out.number(pages.first_page);
  append_items(out, pages.pages);
  out.number(static_cast<std::uint8_t>(pages.last));
  out.number(static_cast<std::uint32_t>(pages.states.size()));
  for (const auto& states : pages.states) {
    PEERCACHE_ASSERT(states.items.size() <= limits::room_pages_max);
    out.number(states.first_page);
    append_items(out, states.items);
  }
  out.number(pages.aux_row);
}

message read_offer(byte_reader& in) {
  offer sent;
  sent.room.value = in.number<std::uint64_t>();
  sent.id.value = in.number<std::uint64_t>();
  sent.under = read_lease(in);
  sent.pages.first_page = in.number<std::uint32_t>();
  sent.pages.pages = read_items(in, limits::offer_pages_max);
  sent.pages.last = in.boolean();
  const auto components = in.number<std::uint32_t>();
  if (components > limits::state_components_max)
    in.fail();
  for (std::uint32_t i = 0; in.ok() && i < components; ++i) {
    state_items states;
    states.first_page = in.number<std::uint32_t>();
    states.items = read_items(in, limits::room_pages_max);
    sent.pages.states.push_back(std::move(states));
  }
  sent.pages.aux_row = in.number<std::uint32_t>();
  return sent;
}

void append(byte_writer& out, const done& sent) {
  out.number(kind::done);
  for (auto number : {sent.room.value, sent.id.value, sent.bytes, sent.microseconds})
    out.number(number);
}

message read_done(byte_reader& in) {
  done sent;
  for (auto* number : {&sent.room.value, &sent.id.value, &sent.bytes, &sent.microseconds})
    *number = in.number<std::uint64_t>();
  return sent;
}

void append(byte_writer& out, const abort& sent) {
  out.number(kind::abort);
  out.number(sent.room.value);
  out.number(sent.id.value);
  out.short_text(std::string_view(sent.reason).substr(0, limits::reason_bytes_max));
  out.number(sent.heard);
}

message read_abort(byte_reader& in) {
  abort sent;
  sent.room.value = in.number<std::uint64_t>();
  sent.id.value = in.number<std::uint64_t>();
  sent.reason = read_text(in);
  sent.heard = in.boolean();
  return sent;
}

void append(byte_writer& out, const beat&) {
  out.number(kind::beat);
}

void append(byte_writer& out, const refusal& sent) {
  out.number(kind::refusal);
  out.short_text(std::string_view(sent.reason).substr(0, limits::reason_bytes_max));
}

void append(byte_writer& out, const transfer_write& sent) {
  out.number(kind::transfer_write);
  append_fields(out, sent);
}

void append(byte_writer& out, const transfer_read& sent) {
  out.number(kind::transfer_read);
  append_fields(out, sent);
}

void append(byte_writer& out, const transfer_lent& sent) {
  out.number(kind::transfer_lent);
  append_fields(out, sent);
}

void append(byte_writer& out, const transfer_ended& sent) {
  out.number(kind::transfer_ended);
  append_fields(out, sent);
}

void append(byte_writer& out, const transfer_stop& sent) {
  out.number(kind::transfer_stop);
  append_fields(out, sent);
}

error malformed(std::string_view bytes) {
  return {errc::invalid_argument,
          "a message of " + std::to_string(bytes.size()) + " bytes between workers is malformed"};
}

error other_version(std::uint32_t version) {
  return {errc::incompatible, "the other worker speaks handoff version " + std::to_string(version) +
                                  " and not " + std::to_string(handoff_wire_version) +
                                  "; install the same version of PeerCache on both sides"};
}

message read_body(kind which, byte_reader& in) {
  switch (which) {
  case kind::hello:
    return read_hello(in);
  case kind::layout:
    return read_layout(in);
  case kind::join:
    return read_join(in);
  case kind::offer:
    return read_offer(in);
  case kind::done:
    return read_done(in);
  case kind::abort:
    return read_abort(in);
  case kind::beat:
    return beat{};
  case kind::refusal:
    return refusal{read_text(in)};
  case kind::transfer_write:
    return read_transfer_write(in);
  case kind::transfer_read:
    return read_transfer_read(in);
  case kind::transfer_lent:
    return read_transfer_lent(in);
  case kind::transfer_ended:
    return read_transfer_ended(in);
  case kind::transfer_stop:
    return read_transfer_stop(in);
  }
  in.fail();
  return beat{};
}

} // namespace

std::string_view to_string(engine_side side) noexcept {
  if (side == engine_side::transfer)
    return "transfer";
  return side == engine_side::prefill ? "prefill" : "decode";
}

std::string encode(const message& sent) {
  std::string bytes;
  byte_writer out(bytes);
  std::visit([&out](const auto& each) { append(out, each); }, sent);
  return bytes;
}

result<message> decode(std::string_view bytes) {
  if (bytes.size() > message_bytes_max)
    return malformed(bytes);
  byte_reader in(bytes);
  const auto which = in.number<kind>();
  if (which == kind::hello) {
    const auto version = in.number<std::uint32_t>();
    if (in.ok() && version != handoff_wire_version)
      return other_version(version);
  }
  auto read = read_body(which, in);
  if (!in.finished())
    return malformed(bytes);
  if (const auto* layout = std::get_if<kv_layout>(&read))
    if (auto good = check(*layout); !good)
      return good.error();
  return read;
}

} // namespace peercache::handoff
