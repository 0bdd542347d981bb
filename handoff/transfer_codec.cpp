#include "handoff/transfer_codec.hpp"

#include "common/assert.hpp"
#include "common/printable.hpp"
#include "handoff/layout_codec.hpp"
#include "handoff/lease_codec.hpp"
#include "handoff/limits.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

namespace peercache::handoff {
namespace {

template <class Item>
void append_list(byte_writer& out, const std::vector<Item>& items) {
  static_assert(std::is_trivially_copyable_v<Item> &&
                std::has_unique_object_representations_v<Item>);
  PEERCACHE_ASSERT(items.size() <= limits::transfer_pieces_max);
  const auto bytes = std::as_bytes(std::span(items));
  out.number(static_cast<std::uint32_t>(items.size()));
  out.text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

template <class Item>
std::vector<Item> read_list(byte_reader& in) {
  const auto count = in.number<std::uint32_t>();
  if (count > limits::transfer_pieces_max)
    in.fail();
  const auto bytes = in.take(in.ok() ? std::size_t{count} * sizeof(Item) : 0);
  std::vector<Item> items(bytes.size() / sizeof(Item));
  if (!items.empty())
    std::memcpy(items.data(), bytes.data(), bytes.size());
  return items;
}

} // namespace

void append_fields(byte_writer& out, const transfer_write& sent) {
  out.number(sent.id.value);
  append_lease(out, sent.under);
  out.number(sent.timeout_ms);
  append_list(out, sent.pieces);
}

void append_fields(byte_writer& out, const transfer_read& sent) {
  out.number(sent.id.value);
  append_list(out, sent.ranges);
}

void append_fields(byte_writer& out, const transfer_lent& sent) {
  out.number(sent.id.value);
  append_lease(out, sent.under);
}

void append_fields(byte_writer& out, const transfer_ended& sent) {
  out.number(sent.id.value);
  out.number(static_cast<std::uint8_t>(sent.good));
  out.short_text(std::string_view(sent.reason).substr(0, limits::reason_bytes_max));
}

void append_fields(byte_writer& out, const transfer_stop& sent) {
  out.number(sent.id.value);
}

transfer_write read_transfer_write(byte_reader& in) {
  transfer_write sent;
  sent.id.value = in.number<std::uint64_t>();
  sent.under = read_lease(in);
  sent.timeout_ms = in.number<std::uint32_t>();
  sent.pieces = read_list<transfer_piece>(in);
  if (!std::all_of(sent.pieces.begin(), sent.pieces.end(), [](const auto& each) {
        return each.source_range().possible() && each.destination_range().possible();
      }))
    in.fail();
  return sent;
}

transfer_read read_transfer_read(byte_reader& in) {
  transfer_read sent;
  sent.id.value = in.number<std::uint64_t>();
  sent.ranges = read_list<memory_range>(in);
  if (!std::all_of(sent.ranges.begin(), sent.ranges.end(),
                   [](const auto& each) { return each.possible(); }))
    in.fail();
  return sent;
}

transfer_lent read_transfer_lent(byte_reader& in) {
  transfer_lent sent;
  sent.id.value = in.number<std::uint64_t>();
  sent.under = read_lease(in);
  return sent;
}

transfer_ended read_transfer_ended(byte_reader& in) {
  transfer_ended sent;
  sent.id.value = in.number<std::uint64_t>();
  sent.good = in.boolean();
  sent.reason = printable(std::string(in.short_text()));
  return sent;
}

transfer_stop read_transfer_stop(byte_reader& in) {
  return {{in.number<std::uint64_t>()}};
}

} // namespace peercache::handoff
