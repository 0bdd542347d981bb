#include "handoff/buffer_pairs.hpp"

#include <map>
#include <string>

namespace peercache::handoff {
namespace {

using pairs = std::vector<buffer_pair>;

error unpaired(const std::string& what) {
  return {errc::incompatible, "prefill and decode do not have the same layers: " + what};
}

std::string counted(std::size_t source, std::size_t destination) {
  return "prefill has " + std::to_string(source) + " buffers and decode " +
         std::to_string(destination);
}

/// Whether decode has all pipeline stages in one worker while prefill has several stages.
bool joins_stages(const kv_layout& source, const kv_layout& destination) noexcept {
  return source.ranks.pp_size != destination.ranks.pp_size;
}

/// Layers for which the source is responsible: decode's buffers of these layers need a partner.
struct layer_range {
  std::uint32_t first = 0;
  std::uint32_t end = no_layer;
  bool has(std::uint32_t layer) const noexcept { return layer >= first && layer < end; }
};

layer_range range_of_stage(const kv_layout& source, const kv_layout& destination) noexcept {
  if (!joins_stages(source, destination))
    return {};
  const auto& ranks = source.ranks;
  return {source.first_layer, ranks.pp + 1 == ranks.pp_size ? no_layer : source.end_layer};
}

result<void> check_stage(const kv_layout& source, const kv_layout& destination) {
  if (joins_stages(source, destination) && source.end_layer == source.first_layer)
    return unpaired("prefill's pipeline stage does not say which layers it has");
  return {};
}

result<pairs> pair_by_layer(const std::vector<std::uint32_t>& source,
                            const std::vector<std::uint32_t>& destination, layer_range range) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> places;
  for (std::uint32_t i = 0; i < destination.size(); ++i)
    if (range.has(destination[i]))
      places[destination[i]].push_back(i);
  std::map<std::uint32_t, std::size_t> used;
  pairs found;
  for (std::uint32_t i = 0; i < source.size(); ++i) {
    const auto place = places.find(source[i]);
    const auto nth = used[source[i]]++;
    if (place == places.end() || nth >= place->second.size())
      return unpaired("decode has " +
                      std::to_string(place == places.end() ? 0 : place->second.size()) +
                      " buffers of layer " + std::to_string(source[i]) + " and prefill has more");
    found.push_back({i, place->second[nth]});
  }
  for (const auto& [layer, buffers] : places)
    if (used[layer] != buffers.size())
      return unpaired("prefill has " + std::to_string(used[layer]) + " buffers of layer " +
                      std::to_string(layer) + " and decode " + std::to_string(buffers.size()));
  return found;
}

void pair_places(pairs& found, std::size_t source, std::size_t destination, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    found.push_back(
        {static_cast<std::uint32_t>(source + i), static_cast<std::uint32_t>(destination + i)});
}

/// Pairs the buffers of one of prefill's pipeline stages with those of a decode worker that has all
/// stages: K of the stage's layers, V of the same layers, and the last stage's buffers of a draft
/// model.
result<pairs> pair_stage_by_place(const kv_layout& source, const kv_layout& destination) {
  const std::size_t layers = source.end_layer - source.first_layer;
  const std::size_t model = source.model_layers;
  const std::size_t kinds = source.mla ? 1 : 2; // K and V.
  if (model == 0)
    return unpaired("prefill has pipeline stages, and says neither the layers of its buffers nor "
                    "how many layers the model has");
  const bool last = source.ranks.pp + 1 == source.ranks.pp_size;
  if (source.buffers.size() < kinds * layers || destination.buffers.size() < kinds * model)
    return unpaired(counted(source.buffers.size(), destination.buffers.size()));
  const auto draft = source.buffers.size() - kinds * layers;
  if (draft != 0 && (!last || draft != destination.buffers.size() - kinds * model))
    return unpaired(counted(source.buffers.size(), destination.buffers.size()));
  pairs found;
  for (std::size_t kind = 0; kind < kinds; ++kind)
    pair_places(found, kind * layers, kind * model + source.first_layer, layers);
  pair_places(found, kinds * layers, kinds * model, draft);
  return found;
}

std::vector<std::uint32_t> layers_of(const std::vector<kv_buffer>& buffers) {
  std::vector<std::uint32_t> layers;
  layers.reserve(buffers.size());
  for (const auto& buffer : buffers)
    layers.push_back(buffer.layer);
  return layers;
}

std::vector<std::uint32_t> layers_of(const state_component& component) {
  std::vector<std::uint32_t> layers;
  layers.reserve(component.tensors.size());
  for (const auto& tensor : component.tensors)
    layers.push_back(tensor.buffer.layer);
  return layers;
}

} // namespace

result<pairs> pair_kv(const kv_layout& source, const kv_layout& destination) {
  if (source.buffers.empty() != destination.buffers.empty() ||
      source.has_layer_ids() != destination.has_layer_ids())
    return unpaired("one of them alone has KV, or says the layers of its buffers");
  if (auto good = check_stage(source, destination); !good)
    return good.error();
  if (source.has_layer_ids())
    return pair_by_layer(layers_of(source.buffers), layers_of(destination.buffers),
                         range_of_stage(source, destination));
  if (joins_stages(source, destination))
    return pair_stage_by_place(source, destination);
  if (source.buffers.size() > destination.buffers.size())
    return unpaired(counted(source.buffers.size(), destination.buffers.size()));
  pairs found;
  pair_places(found, 0, 0, source.buffers.size());
  return found;
}

result<pairs> pair_states(const kv_layout& source, const kv_layout& destination,
                          std::size_t index) {
  const auto from = layers_of(source.states[index]);
  const auto to = layers_of(destination.states[index]);
  const bool has_ids = !to.empty() && to[0] != no_layer;
  if (!from.empty() && (from[0] != no_layer) != has_ids)
    return unpaired("one of them alone says the layers of its states");
  if (auto good = check_stage(source, destination); !good)
    return good.error();
  if (has_ids)
    return pair_by_layer(from, to, range_of_stage(source, destination));
  if (joins_stages(source, destination) || from.size() != to.size())
    return unpaired("states without layers: " + counted(from.size(), to.size()));
  pairs found;
  pair_places(found, 0, 0, from.size());
  return found;
}

} // namespace peercache::handoff
