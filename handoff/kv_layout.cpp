#include "handoff/kv_layout.hpp"

#include <tuple>
#include <utility>

namespace peercache::handoff {
namespace {

error impossible(std::string what) {
  return {errc::invalid_argument, "a worker's layout is impossible: " + std::move(what)};
}

error differs(std::string_view what, const std::string& source, const std::string& destination) {
  return {errc::incompatible, "prefill has " + std::string(what) + " " + source +
                                  " and decode has " + destination +
                                  "; start both with the same model and options"};
}

std::string quoted(std::string_view word) {
  return "'" + std::string(word) + "'";
}

result<void> check_buffer(const kv_buffer& buffer, const std::string& name) {
  if (buffer.address == 0)
    return impossible(name + " has no address");
  if (buffer.item_bytes == 0 || buffer.item_bytes > limits::page_bytes_max)
    return impossible(name + " has items of " + std::to_string(buffer.item_bytes) + " bytes");
  if (buffer.length_bytes < buffer.item_bytes)
    return impossible(name + " is shorter than one of its items");
  if (buffer.length_bytes > ~std::uint64_t{0} - buffer.address)
    return impossible(name + " ends behind the end of memory");
  return {};
}

result<void> check_ranks(const worker_ranks& ranks) {
  for (auto [rank, size, name] : {std::tuple(ranks.tp, ranks.tp_size, "tensor"),
                                  {ranks.pp, ranks.pp_size, "pipeline"},
                                  {ranks.cp, ranks.cp_size, "context"}})
    if (size == 0 || size > limits::ranks_max || rank >= size)
      return impossible(std::string(name) + " parallel rank " + std::to_string(rank) + " of " +
                        std::to_string(size));
  return {};
}

result<void> check_buffers(const kv_layout& layout) {
  if (layout.buffers.size() > limits::buffers_max)
    return impossible(std::to_string(layout.buffers.size()) + " KV buffers");
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    const auto& buffer = layout.buffers[i];
    const auto name = "KV buffer " + std::to_string(i);
    if (auto good = check_buffer(buffer, name); !good)
      return good;
    if (buffer.item_bytes % layout.page_tokens != 0)
      return impossible(name + " has pages of " + std::to_string(buffer.item_bytes) +
                        " bytes for " + std::to_string(layout.page_tokens) + " tokens");
    if ((buffer.layer != no_layer) != layout.has_layer_ids())
      return impossible("some KV buffers have layers and others have none");
  }
  if (!layout.mla && layout.buffers.size() % 2 != 0)
    return impossible("K and V are " + std::to_string(layout.buffers.size()) + " buffers");
  return {};
}

result<void> check_shares(const state_tensor& tensor, std::uint32_t tp_size,
                          const std::string& name) {
  const std::uint64_t units = std::uint64_t{tensor.dim} * tensor.outer_count;
  if (tensor.outer_count > limits::item_rows_max || (tensor.dim == 0) != (tensor.outer_count == 0))
    return impossible(name + " has " + std::to_string(tensor.outer_count) + " rows of " +
                      std::to_string(tensor.dim));
  if (units != 0 && tensor.buffer.item_bytes % units != 0)
    return impossible(name + " has items of " + std::to_string(tensor.buffer.item_bytes) +
                      " bytes for " + std::to_string(units) + " units");
  if (tensor.conv_groups.size() > limits::conv_groups_max)
    return impossible(name + " has " + std::to_string(tensor.conv_groups.size()) + " groups");
  std::uint64_t sum = 0;
  for (auto group : tensor.conv_groups) {
    if (group == 0 || group % tp_size != 0)
      return impossible(name + " has a group of " + std::to_string(group) + " for " +
                        std::to_string(tp_size) + " ranks");
    sum += group;
  }
  if (!tensor.conv_groups.empty() && sum != std::uint64_t{tensor.dim} * tp_size)
    return impossible(name + " has groups of " + std::to_string(sum) + " together");
  return {};
}

result<void> check_component(const state_component& component, std::uint32_t tp_size) {
  const std::string word(to_string(component.type));
  if (component.tensors.size() > limits::tensors_per_component_max)
    return impossible("the states " + word + " are " + std::to_string(component.tensors.size()) +
                      " tensors");
  for (std::size_t i = 0; i < component.tensors.size(); ++i) {
    const auto& tensor = component.tensors[i];
    const auto name = "tensor " + std::to_string(i) + " of the states " + word;
    if (auto good = check_buffer(tensor.buffer, name); !good)
      return good;
    if (auto good = check_shares(tensor, tp_size, name); !good)
      return good;
    if ((tensor.buffer.layer == no_layer) != (component.tensors[0].buffer.layer == no_layer))
      return impossible("some states " + word + " have layers and others have none");
  }
  return {};
}

result<void> check_model(const kv_layout& layout) {
  if (layout.dtype.empty() || layout.dtype.size() > limits::dtype_bytes_max)
    return impossible("the name of its number type has " + std::to_string(layout.dtype.size()) +
                      " bytes");
  for (char letter : layout.dtype)
    if (letter <= ' ' || letter > '~')
      return impossible("the name of its number type has a character that cannot be printed");
  if (layout.page_tokens == 0 || layout.page_tokens > limits::page_tokens_max)
    return impossible("pages of " + std::to_string(layout.page_tokens) + " tokens");
  if (layout.kv_heads > limits::heads_max)
    return impossible(std::to_string(layout.kv_heads) + " KV heads");
  if (layout.hybrid_mla && !layout.mla)
    return impossible("it is a hybrid of MLA without MLA");
  if (layout.end_layer < layout.first_layer || layout.end_layer > limits::buffers_max)
    return impossible("layers " + std::to_string(layout.first_layer) + " to " +
                      std::to_string(layout.end_layer));
  if (layout.model_layers > limits::buffers_max ||
      (layout.model_layers != 0 && layout.end_layer > layout.model_layers))
    return impossible("a stage up to layer " + std::to_string(layout.end_layer) + " of " +
                      std::to_string(layout.model_layers));
  return {};
}

} // namespace

std::string_view to_string(state_type type) noexcept {
  switch (type) {
  case state_type::mamba:
    return "mamba";
  case state_type::swa:
    return "swa";
  case state_type::dsa:
    return "dsa";
  case state_type::minimax_index_k:
    return "minimax_index_k";
  case state_type::swa_ring:
    return "swa_ring";
  case state_type::c128_state:
    return "c128_state";
  }
  return "unknown";
}

result<void> check(const kv_layout& layout) {
  if (auto good = check_model(layout); !good)
    return good;
  if (auto good = check_ranks(layout.ranks); !good)
    return good;
  if (auto good = check_buffers(layout); !good)
    return good;
  if (layout.states.size() > limits::state_components_max)
    return impossible(std::to_string(layout.states.size()) + " components of states");
  for (const auto& component : layout.states)
    if (auto good = check_component(component, layout.ranks.tp_size); !good)
      return good;
  if (layout.aux.size() > limits::aux_fields_max)
    return impossible("aux rows of " + std::to_string(layout.aux.size()) + " fields");
  for (std::size_t i = 0; i < layout.aux.size(); ++i)
    if (auto good = check_buffer(layout.aux[i], "aux field " + std::to_string(i)); !good)
      return good;
  return {};
}

result<void> compare(const kv_layout& source, const kv_layout& destination) {
  if (source.dtype != destination.dtype)
    return differs("KV of type", quoted(source.dtype), quoted(destination.dtype));
  auto numbers = [](std::string_view what, std::uint64_t s, std::uint64_t d) -> result<void> {
    if (s != d)
      return differs(what, std::to_string(s), std::to_string(d));
    return {};
  };
  if (auto same = numbers("a page size of", source.page_tokens, destination.page_tokens); !same)
    return same;
  if (source.mla != destination.mla || source.hybrid_mla != destination.hybrid_mla) {
    auto kind = [](const kv_layout& of) {
      return of.hybrid_mla ? "hybrid MLA" : of.mla ? "MLA" : "heads";
    };
    return differs("attention with", kind(source), kind(destination));
  }
  if (auto same = numbers("components of states:", source.states.size(), destination.states.size());
      !same)
    return same;
  for (std::size_t i = 0; i < source.states.size(); ++i)
    if (source.states[i].type != destination.states[i].type)
      return differs("as component " + std::to_string(i) + " of states",
                     quoted(to_string(source.states[i].type)),
                     quoted(to_string(destination.states[i].type)));
  if (auto same = numbers("aux fields:", source.aux.size(), destination.aux.size()); !same)
    return same;
  for (std::size_t i = 0; i < source.aux.size(); ++i)
    if (auto same = numbers("bytes of aux field " + std::to_string(i) + ":",
                            source.aux[i].item_bytes, destination.aux[i].item_bytes);
        !same)
      return same;
  return {};
}

} // namespace peercache::handoff
