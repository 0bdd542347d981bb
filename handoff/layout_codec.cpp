#include "handoff/layout_codec.hpp"

#include "common/assert.hpp"

namespace peercache::handoff {
namespace {

void append_buffer(byte_writer& out, const kv_buffer& buffer) {
  out.number(buffer.address);
  out.number(buffer.length_bytes);
  out.number(buffer.item_bytes);
  out.number(buffer.layer);
}

kv_buffer read_buffer(byte_reader& in) {
  kv_buffer buffer;
  buffer.address = in.number<std::uint64_t>();
  buffer.length_bytes = in.number<std::uint64_t>();
  buffer.item_bytes = in.number<std::uint32_t>();
  buffer.layer = in.number<std::uint32_t>();
  return buffer;
}

void append_tensor(byte_writer& out, const state_tensor& tensor) {
  append_buffer(out, tensor.buffer);
  out.number(tensor.dim);
  out.number(tensor.outer_count);
  out.number(static_cast<std::uint32_t>(tensor.conv_groups.size()));
  for (auto group : tensor.conv_groups)
    out.number(group);
}

/// Reads a list item by item with `read`, until its end or the end of the bytes.
template <class Item, class Read>
std::vector<Item> read_list(byte_reader& in, std::uint32_t most, Read read) {
  const auto count = in.number<std::uint32_t>();
  if (count > most)
    in.fail();
  std::vector<Item> items;
  for (std::uint32_t i = 0; in.ok() && i < count; ++i)
    items.push_back(read(in));
  return items;
}

state_tensor read_tensor(byte_reader& in) {
  state_tensor tensor;
  tensor.buffer = read_buffer(in);
  tensor.dim = in.number<std::uint32_t>();
  tensor.outer_count = in.number<std::uint32_t>();
  tensor.conv_groups = read_list<std::uint32_t>(
      in, limits::conv_groups_max, [](byte_reader& from) { return from.number<std::uint32_t>(); });
  return tensor;
}

void append_component(byte_writer& out, const state_component& component) {
  out.number(static_cast<std::uint8_t>(component.type));
  out.number(static_cast<std::uint32_t>(component.tensors.size()));
  for (const auto& tensor : component.tensors)
    append_tensor(out, tensor);
}

state_component read_component(byte_reader& in) {
  state_component component;
  const auto type = in.number<std::uint8_t>();
  if (type >= state_type_count)
    in.fail();
  component.type = static_cast<state_type>(type);
  component.tensors = read_list<state_tensor>(in, limits::tensors_per_component_max, read_tensor);
  return component;
}

void append_ranks(byte_writer& out, const worker_ranks& ranks) {
  for (auto number : {ranks.tp, ranks.tp_size, ranks.pp, ranks.pp_size, ranks.cp, ranks.cp_size})
    out.number(number);
}

worker_ranks read_ranks(byte_reader& in) {
  worker_ranks ranks;
  for (auto* number :
       {&ranks.tp, &ranks.tp_size, &ranks.pp, &ranks.pp_size, &ranks.cp, &ranks.cp_size})
    *number = in.number<std::uint32_t>();
  return ranks;
}

} // namespace

void append_layout(byte_writer& out, const kv_layout& layout) {
  PEERCACHE_ASSERT(check(layout));
  out.short_text(layout.dtype);
  out.number(layout.page_tokens);
  for (bool flag : {layout.mla, layout.hybrid_mla, layout.all_cp_ranks_send})
    out.number(static_cast<std::uint8_t>(flag));
  for (auto number : {layout.kv_heads, layout.first_layer, layout.end_layer, layout.model_layers})
    out.number(number);
  append_ranks(out, layout.ranks);
  out.number(static_cast<std::uint32_t>(layout.buffers.size()));
  for (const auto& buffer : layout.buffers)
    append_buffer(out, buffer);
  out.number(static_cast<std::uint32_t>(layout.states.size()));
  for (const auto& component : layout.states)
    append_component(out, component);
  out.number(static_cast<std::uint32_t>(layout.aux.size()));
  for (const auto& field : layout.aux)
    append_buffer(out, field);
}

kv_layout read_layout(byte_reader& in) {
  kv_layout layout;
  layout.dtype = in.short_text();
  layout.page_tokens = in.number<std::uint32_t>();
  for (auto* flag : {&layout.mla, &layout.hybrid_mla, &layout.all_cp_ranks_send})
    *flag = in.boolean();
  for (auto* number :
       {&layout.kv_heads, &layout.first_layer, &layout.end_layer, &layout.model_layers})
    *number = in.number<std::uint32_t>();
  layout.ranks = read_ranks(in);
  layout.buffers = read_list<kv_buffer>(in, limits::buffers_max, read_buffer);
  layout.states = read_list<state_component>(in, limits::state_components_max, read_component);
  layout.aux = read_list<kv_buffer>(in, limits::aux_fields_max, read_buffer);
  return layout;
}

} // namespace peercache::handoff
