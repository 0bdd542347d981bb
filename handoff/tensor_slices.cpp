#include "handoff/tensor_slices.hpp"

#include <algorithm>
#include <string>

namespace peercache::handoff {
namespace {

error lengths_differ(const std::string& what, std::uint64_t source, std::uint64_t destination) {
  return {errc::incompatible, what + ": prefill has " + std::to_string(source) +
                                  " and decode has " + std::to_string(destination)};
}

bool divide(std::uint32_t a, std::uint32_t b) noexcept {
  return a % b == 0 || b % a == 0;
}

/// Returns the stripe that copies whole items, if items are equally long on both sides; else an
/// error.
result<item_stripe> equal_items(std::uint32_t source_bytes, std::uint32_t destination_bytes) {
  if (source_bytes != destination_bytes)
    return lengths_differ("bytes of an item", source_bytes, destination_bytes);
  return whole_items(source_bytes);
}

/// A share of one group of a row of states: its place in the group on either side, and its width,
/// in units.
struct unit_slice {
  std::uint64_t source = 0;
  std::uint64_t destination = 0;
  std::uint64_t width = 0;
};

/// The slice of a group that has `width` units over all ranks, relative to where the group begins.
unit_slice slice_of_group(std::uint64_t width, const worker_ranks& from,
                          const worker_ranks& to) noexcept {
  const std::uint64_t source = width / from.tp_size;
  const std::uint64_t destination = width / to.tp_size;
  if (from.tp_size > to.tp_size)
    return {0, from.tp % (from.tp_size / to.tp_size) * source, source};
  return {to.tp * destination % source, 0, destination};
}

result<void> check_shares(const kv_layout& source, const kv_layout& destination,
                          const state_tensor& from, const state_tensor& to) {
  if (from.dim == 0 || to.dim == 0)
    return error{errc::incompatible, "the engine does not say how it is shared out over the ranks"};
  const auto whole = std::uint64_t{from.dim} * source.ranks.tp_size;
  if (whole != std::uint64_t{to.dim} * destination.ranks.tp_size)
    return lengths_differ("units of all ranks", whole,
                          std::uint64_t{to.dim} * destination.ranks.tp_size);
  if (from.outer_count != to.outer_count)
    return lengths_differ("rows", from.outer_count, to.outer_count);
  const auto unit = from.buffer.item_bytes / (from.dim * std::uint64_t{from.outer_count});
  const auto other = to.buffer.item_bytes / (to.dim * std::uint64_t{to.outer_count});
  if (unit != other)
    return lengths_differ("bytes of a unit", unit, other);
  if (from.conv_groups != to.conv_groups)
    return lengths_differ("groups of a row", from.conv_groups.size(), to.conv_groups.size());
  return {};
}

} // namespace

item_stripe whole_items(std::uint32_t item_bytes) noexcept {
  return {0, 0, item_bytes, item_bytes, 1, item_bytes};
}

result<item_stripe> slice_of_heads(const kv_layout& source, const kv_layout& destination,
                                   std::uint32_t source_bytes, std::uint32_t destination_bytes) {
  const auto p = source.ranks.tp_size;
  const auto d = destination.ranks.tp_size;
  if (p == d || source.mla)
    return equal_items(source_bytes, destination_bytes);
  const auto heads = source.kv_heads;
  if (heads == 0 || !divide(heads, p) || !divide(heads, d))
    return error{errc::incompatible, std::to_string(heads) +
                                         " KV heads cannot be shared out over " +
                                         std::to_string(p) + " ranks of prefill and " +
                                         std::to_string(d) + " of decode"};
  const auto s = std::max(1u, heads / p); // Heads of a rank of prefill.
  const auto t = std::max(1u, heads / d); // Heads of a rank of decode.
  const auto source_row = source_bytes / source.page_tokens;
  const auto destination_row = destination_bytes / destination.page_tokens;
  const auto head = destination_row / t;
  if (destination_row % t != 0 || source_row != std::uint64_t{head} * s)
    return lengths_differ("bytes of a token with " + std::to_string(s) + " and " +
                              std::to_string(t) + " heads",
                          source_row, destination_row);
  // Ranks that hold the same heads are neighbours: a rank, divided by the number of such ranks, is
  // the number of their group.
  item_stripe stripe{0, 0, source_row, destination_row, source.page_tokens, head * std::min(s, t)};
  if (p > d)
    stripe.destination = std::uint64_t{source.ranks.tp / std::max(1u, p / heads)} * s % t * head;
  else
    stripe.source = std::uint64_t{destination.ranks.tp / std::max(1u, d / heads)} * t % s * head;
  return stripe;
}

result<std::vector<item_stripe>> slices_of_states(const kv_layout& source,
                                                  const kv_layout& destination, state_type type,
                                                  const state_tensor& from,
                                                  const state_tensor& to) {
  const bool same_ranks = source.ranks.tp_size == destination.ranks.tp_size;
  if (same_ranks || (source.mla && type != state_type::mamba)) {
    auto whole = equal_items(from.buffer.item_bytes, to.buffer.item_bytes);
    if (!whole)
      return whole.error();
    return std::vector{*whole};
  }
  if (type != state_type::mamba)
    return error{errc::incompatible, "it cannot go from " + std::to_string(source.ranks.tp_size) +
                                         " tensor parallel ranks to " +
                                         std::to_string(destination.ranks.tp_size)};
  if (auto good = check_shares(source, destination, from, to); !good)
    return good.error();
  const std::uint64_t unit = to.buffer.item_bytes / (to.dim * std::uint64_t{to.outer_count});
  std::vector<std::uint64_t> groups(from.conv_groups.begin(), from.conv_groups.end());
  if (groups.empty())
    groups.push_back(std::uint64_t{from.dim} * source.ranks.tp_size);
  std::vector<item_stripe> stripes;
  std::uint64_t source_begin = 0, destination_begin = 0;
  for (auto group : groups) {
    const auto slice = slice_of_group(group, source.ranks, destination.ranks);
    stripes.push_back({(source_begin + slice.source) * unit,
                       (destination_begin + slice.destination) * unit, from.dim * unit,
                       to.dim * unit, from.outer_count,
                       static_cast<std::uint32_t>(slice.width * unit)});
    source_begin += group / source.ranks.tp_size;
    destination_begin += group / destination.ranks.tp_size;
  }
  return stripes;
}

} // namespace peercache::handoff
