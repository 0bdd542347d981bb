#include "tests/handoff/plan_world.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace peercache::handoff::test {
namespace {

/// Initial value of each byte of a worker's memory.
constexpr std::byte untouched{0xee};

template <class... Numbers>
std::byte value_of(Numbers... numbers) noexcept {
  std::uint64_t hash = 14695981039346656037ull;
  for (std::uint64_t number : {static_cast<std::uint64_t>(numbers)...}) {
    hash = (hash ^ number) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return static_cast<std::byte>(hash >> 32);
}

std::uint32_t one_of(std::mt19937_64& random, std::initializer_list<std::uint32_t> values) {
  return *(values.begin() + random() % values.size());
}

constexpr std::uint32_t aux_bytes[] = {64, 4, 1000};

} // namespace

model_shape::model_shape(std::mt19937_64& random) {
  p = one_of(random, {1, 2, 4, 8});
  d = one_of(random, {1, 2, 4, 8});
  source_stages = one_of(random, {1, 1, 2, 3});
  destination_stages = random() % 2 == 0 ? 1 : source_stages;
  cp = one_of(random, {1, 1, 2, 3});
  all_cp = random() % 2 == 0;
  mla = random() % 3 == 0;
  heads = one_of(random, {1, 2, 4, 8, 16});
  head_bytes = 1 + random() % 24;
  page_tokens = one_of(random, {1, 2, 4, 16});
  layers = source_stages + random() % 4;
  layer_ids = random() % 2 == 0;
  destination_draft = random() % 3 == 0;
  source_draft = destination_draft && (layer_ids || random() % 2 == 0);
  outer = one_of(random, {1, 2, 5});
  unit_bytes = one_of(random, {1, 2, 4});
  for (auto count = one_of(random, {1, 2, 3}); count-- > 0;)
    groups.push_back(8 * one_of(random, {1, 2, 3}));
  if (random() % 2 == 0)
    states.push_back(state_type::mamba);
  if (p == d || mla)
    for (auto type : {state_type::swa, state_type::dsa, state_type::minimax_index_k,
                      state_type::swa_ring, state_type::c128_state})
      if (random() % 4 == 0)
        states.push_back(type);
}

std::string model_shape::text() const {
  std::string text = "tp " + std::to_string(p) + "->" + std::to_string(d) + " pp " +
                     std::to_string(source_stages) + "->" + std::to_string(destination_stages) +
                     " cp " + std::to_string(cp) + (all_cp ? " all" : "") + (mla ? " mla" : "") +
                     " heads " + std::to_string(heads) + " head bytes " +
                     std::to_string(head_bytes) + " page " + std::to_string(page_tokens) +
                     " layers " + std::to_string(layers) + (layer_ids ? " with ids" : "") +
                     (source_draft ? " source draft" : "") +
                     (destination_draft ? " destination draft" : "");
  for (auto type : states)
    text += " " + std::string(to_string(type));
  return text;
}

tensor_memory heap_memory(std::size_t bytes) {
  auto memory = std::make_shared<std::vector<std::byte>>(bytes);
  return {*memory, reinterpret_cast<std::uintptr_t>(memory->data()), memory};
}

fake_worker::fake_worker(const model_shape& shape, worker_ranks ranks, bool is_source,
                         memory_maker make)
    : shape_(shape), make_(std::move(make)), is_source_(is_source), tp_size_(ranks.tp_size),
      local_heads_(shape.mla ? 1 : std::max(1u, shape.heads / ranks.tp_size)) {
  layout_.dtype = "bfloat16";
  layout_.page_tokens = shape.page_tokens;
  layout_.mla = shape.mla;
  layout_.hybrid_mla =
      shape.mla && std::count(shape.states.begin(), shape.states.end(), state_type::mamba) != 0;
  layout_.ranks = ranks;
  if (is_source) {
    layout_.all_cp_ranks_send = shape.all_cp;
    layout_.kv_heads = shape.mla ? 0 : shape.heads;
    layout_.model_layers = shape.layers;
    const auto stage = stage_layers();
    layout_.first_layer = stage.front();
    layout_.end_layer = stage.back() + 1;
  }
  add_kv();
  add_states();
  for (auto bytes : aux_bytes) {
    aux_.push_back(tensors_.size());
    layout_.aux.push_back(add_tensor(heap_memory, bytes, no_layer));
  }
}

/// Layers of this worker's pipeline stage. Stages of prefill differ by at most one layer; a decode
/// with one stage has all layers.
std::vector<std::uint32_t> fake_worker::stage_layers() const {
  const auto& ranks = layout_.ranks;
  std::vector<std::uint32_t> layers;
  for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
    if (layer * ranks.pp_size / shape_.layers == ranks.pp)
      layers.push_back(layer);
  return layers;
}

kv_buffer fake_worker::add_tensor(const memory_maker& make, std::uint32_t item_bytes,
                                  std::uint32_t layer) {
  auto made = std::make_unique<tensor>();
  made->item_bytes = item_bytes;
  made->memory = make(std::size_t{items} * item_bytes);
  made->bytes = made->memory.bytes;
  std::fill(made->bytes.begin(), made->bytes.end(), untouched);
  made->writes.resize(made->bytes.size());
  kv_buffer buffer{made->memory.address, made->bytes.size(), item_bytes, layer};
  tensors_.push_back(std::move(made));
  return buffer;
}

void fake_worker::add_kv() {
  const auto item_bytes = shape_.page_tokens * local_heads_ * shape_.head_bytes;
  auto add = [&](std::uint32_t layer, std::uint32_t kind) {
    kv_.push_back({tensors_.size(), layer, kind});
    layout_.buffers.push_back(add_tensor(make_, item_bytes, shape_.layer_ids ? layer : no_layer));
  };
  for (std::uint32_t kind = 0; kind < (shape_.mla ? 1u : 2u); ++kind)
    for (auto layer : stage_layers())
      add(layer, kind);
  const auto& ranks = layout_.ranks;
  const bool draft = is_source_ ? shape_.source_draft : shape_.destination_draft;
  if (draft && ranks.pp + 1 == ranks.pp_size)
    for (std::uint32_t kind = 2; kind < (shape_.mla ? 3u : 4u); ++kind)
      add(shape_.layers, kind);
}

void fake_worker::add_states() {
  const auto width = std::accumulate(shape_.groups.begin(), shape_.groups.end(), 0u) / tp_size_;
  for (auto type : shape_.states) {
    state_component component;
    component.type = type;
    std::vector<std::size_t> tensors;
    std::vector<std::uint32_t> names;
    for (auto layer : stage_layers())
      for (std::uint32_t nth = 0; nth < 2; ++nth) {
        state_tensor made;
        const bool mamba = type == state_type::mamba;
        const auto bytes = mamba ? shape_.outer * width * shape_.unit_bytes : 24u;
        tensors.push_back(tensors_.size());
        names.push_back(layer * 2 + nth);
        made.buffer = add_tensor(make_, bytes, layer);
        if (mamba) {
          made.dim = width;
          made.outer_count = shape_.outer;
          if (shape_.groups.size() > 1)
            made.conv_groups = shape_.groups;
        }
        component.tensors.push_back(made);
      }
    layout_.states.push_back(component);
    states_.push_back(tensors);
    state_names_.push_back(names);
  }
}

/// Returns the number in the whole model of this rank's head `local`. Ranks get heads in order; if
/// there are more ranks than heads, neighbouring ranks have the same head.
std::uint32_t fake_worker::head_of(std::uint32_t local) const noexcept {
  if (shape_.mla)
    return 0;
  std::uint32_t head = 0;
  for (std::uint32_t rank = 0; rank < layout_.ranks.tp; ++rank)
    if (shape_.heads >= tp_size_)
      head += local_heads_;
    else if ((rank + 1) % (tp_size_ / shape_.heads) == 0)
      ++head;
  return head + local;
}

template <class Visit>
void fake_worker::visit_kv(const room_items& room, Visit visit) const {
  for (const auto& kv : kv_) {
    if (kv.kind >= 2 && !shape_.source_draft)
      continue;
    for (std::size_t i = 0; i < room.pages.size(); ++i)
      for (std::uint32_t token = 0; token < shape_.page_tokens; ++token)
        for (std::uint32_t head = 0; head < local_heads_; ++head)
          for (std::uint32_t byte = 0; byte < shape_.head_bytes; ++byte) {
            const auto row = std::size_t{room.pages[i]} * shape_.page_tokens + token;
            visit(kv.tensor, (row * local_heads_ + head) * shape_.head_bytes + byte,
                  value_of(1, kv.layer, kv.kind,
                           (room.prefix_pages + i) * shape_.page_tokens + token, head_of(head),
                           byte));
          }
  }
}

template <class Visit>
void fake_worker::visit_mamba(std::uint32_t item, const std::vector<std::size_t>& tensors,
                              Visit visit) const {
  for (std::size_t nth = 0; nth < tensors.size(); ++nth) {
    std::size_t at = std::size_t{item} * tensors_[tensors[nth]]->item_bytes;
    for (std::uint32_t row = 0; row < shape_.outer; ++row)
      for (std::size_t group = 0; group < shape_.groups.size(); ++group)
        for (std::uint32_t unit = 0; unit < shape_.groups[group]; ++unit) {
          if (unit / (shape_.groups[group] / tp_size_) != layout_.ranks.tp)
            continue;
          for (std::uint32_t byte = 0; byte < shape_.unit_bytes; ++byte)
            visit(tensors[nth], nth, at++, row, group, unit, byte);
        }
  }
}

template <class Visit>
void fake_worker::visit_room(const room_items& room, Visit visit) const {
  visit_kv(room, visit);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto& names = state_names_[i];
    if (shape_.states[i] == state_type::mamba) {
      visit_mamba(room.states[i].items[0], states_[i],
                  [&](std::size_t tensor, std::size_t nth, std::size_t at, std::uint32_t row,
                      std::size_t group, std::uint32_t unit, std::uint32_t byte) {
                    visit(tensor, at, value_of(2, names[nth], row, group, unit, byte));
                  });
      continue;
    }
    for (std::size_t nth = 0; nth < states_[i].size(); ++nth)
      for (std::size_t item = 0; item < room.states[i].items.size(); ++item)
        for (std::uint32_t byte = 0; byte < 24; ++byte)
          visit(states_[i][nth], std::size_t{room.states[i].items[item]} * 24 + byte,
                value_of(3, i, names[nth], room.states[i].first_page + item, byte));
  }
  for (std::size_t field = 0; field < aux_.size(); ++field)
    for (std::uint32_t byte = 0; byte < aux_bytes[field]; ++byte)
      visit(aux_[field], std::size_t{room.aux_row} * aux_bytes[field] + byte,
            value_of(4, field, byte));
}

void fake_worker::fill(const room_items& room) {
  visit_room(room, [this](std::size_t tensor, std::size_t at, std::byte value) {
    tensors_[tensor]->bytes[at] = value;
  });
}

void fake_worker::receive(const piece& read, const std::vector<page_part>& parts) {
  std::vector<std::byte> wire;
  for (std::uint32_t row = 0; row < read.source.rows; ++row) {
    const auto* from =
        reinterpret_cast<const std::byte*>(read.source.address + row * read.source.stride_bytes);
    wire.insert(wire.end(), from, from + read.source.row_bytes);
  }
  std::size_t at = 0;
  for (std::uint32_t i = read.first_part; i < read.first_part + read.part_count; ++i) {
    const auto& part = parts[i];
    std::memcpy(part.data, wire.data() + at, part.bytes);
    at += part.bytes;
    for (auto& tensor : tensors_) {
      const auto offset = part.data - tensor->bytes.data();
      if (offset >= 0 && static_cast<std::size_t>(offset) < tensor->bytes.size())
        for (std::uint32_t byte = 0; byte < part.bytes; ++byte)
          ++tensor->writes[static_cast<std::size_t>(offset) + byte];
    }
  }
}

std::string fake_worker::check(const room_items& room) const {
  std::vector<std::vector<std::uint8_t>> expected;
  for (const auto& tensor : tensors_)
    expected.emplace_back(tensor->bytes.size());
  std::string wrong;
  visit_room(room, [&](std::size_t tensor, std::size_t at, std::byte value) {
    expected[tensor][at] = 1;
    if (wrong.empty() && tensors_[tensor]->bytes[at] != value)
      wrong = "tensor " + std::to_string(tensor) + " has a wrong byte at " + std::to_string(at);
  });
  for (std::size_t tensor = 0; tensor < tensors_.size() && wrong.empty(); ++tensor)
    for (std::size_t at = 0; at < expected[tensor].size(); ++at)
      if (tensors_[tensor]->writes[at] != expected[tensor][at])
        return "tensor " + std::to_string(tensor) + " byte " + std::to_string(at) + " of " +
               std::to_string(tensors_[tensor]->bytes.size()) + " was written " +
               std::to_string(tensors_[tensor]->writes[at]) + " times and not " +
               std::to_string(expected[tensor][at]);
  return wrong;
}

std::string fake_worker::check_bytes(const room_items& room) const {
  std::vector<std::vector<std::byte>> expected;
  for (const auto& tensor : tensors_)
    expected.emplace_back(tensor->bytes.size(), untouched);
  visit_room(room, [&](std::size_t tensor, std::size_t at, std::byte value) {
    expected[tensor][at] = value;
  });
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const auto& bytes = tensors_[tensor]->bytes;
    const auto other = std::mismatch(bytes.begin(), bytes.end(), expected[tensor].begin());
    if (other.first != bytes.end())
      return "tensor " + std::to_string(tensor) + " has a wrong byte at " +
             std::to_string(other.first - bytes.begin());
  }
  return {};
}

room_items random_items(const model_shape& shape, std::mt19937_64& random, std::uint32_t prefix,
                        std::uint32_t pages, std::uint32_t window, std::uint32_t ring,
                        bool compressed) {
  std::vector<std::uint32_t> order(fake_worker::items);
  std::iota(order.begin(), order.end(), 0u);
  if (random() % 2 == 0)
    std::shuffle(order.begin(), order.end(), random);
  else
    std::rotate(order.begin(), order.begin() + random() % 20, order.end());
  auto take = [&](std::size_t count) {
    return std::vector<std::uint32_t>(order.begin(), order.begin() + static_cast<long>(count));
  };
  room_items room{
      prefix, take(pages), {}, static_cast<std::uint32_t>(random() % fake_worker::items)};
  const auto end = prefix + pages;
  for (auto type : shape.states)
    switch (type) {
    case state_type::mamba:
      room.states.push_back({0, take(1)});
      break;
    case state_type::swa:
      room.states.push_back({end - window, take(window)});
      break;
    case state_type::dsa:
    case state_type::minimax_index_k:
      room.states.push_back({0, take(end)});
      break;
    case state_type::swa_ring:
      room.states.push_back({0, take(ring)});
      break;
    case state_type::c128_state:
      room.states.push_back({0, take(compressed ? 1 : 0)});
      break;
    }
  return room;
}

} // namespace peercache::handoff::test
