#include "rank_memory.hpp"

#include "common/assert.hpp"
#include "handoff_board.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sys/mman.h>

namespace peercache::handoff_stress {

namespace {

using handoff::state_type;

constexpr std::uint32_t state_layers = 8;
constexpr std::uint32_t swa_item_bytes = 1024;
constexpr std::uint32_t dsa_token_bytes = 132;
/// Bytes of each field of SGLang's metadata buffers, which are sent as aux data.
constexpr std::uint32_t aux_bytes[] = {64, 64, 64, 64, 512, 512, 64, 128, 8192, 64};
constexpr std::uint32_t word_step = 0x9e3779b1u;

template <class... Numbers>
std::uint32_t word_of(Numbers... numbers) noexcept {
  std::uint64_t hash = 14695981039346656037ull;
  for (std::uint64_t number : {static_cast<std::uint64_t>(numbers)...}) {
    hash = (hash ^ number) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return static_cast<std::uint32_t>(hash >> 32);
}

void write_words(std::byte* to, std::size_t bytes, std::uint32_t first) noexcept {
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (std::uint32_t i = 0; i < bytes / sizeof first; ++i)
    words[i] = first + i * word_step;
}

bool has_words(const std::byte* at, std::size_t bytes, std::uint32_t first) noexcept {
  const auto* words = reinterpret_cast<const std::uint32_t*>(at);
  std::uint32_t differing = 0;
  for (std::uint32_t i = 0; i < bytes / sizeof first; ++i)
    differing |= words[i] ^ (first + i * word_step);
  return differing == 0;
}

/// Address space for a rank's buffers; the kernel provides memory only for pages that are written
/// to.
constexpr std::size_t mapped_bytes = std::size_t{16} << 30;

} // namespace

rank_memory::rank_memory(const handoff_plan& plan, std::uint32_t rank, bool prefill) {
  auto* memory = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PEERCACHE_ASSERT(memory != MAP_FAILED);
  mapped_ = {static_cast<std::byte*>(memory), mapped_bytes};
  layout_.dtype = "bfloat16";
  layout_.page_tokens = plan.model.page_tokens;
  layout_.mla = plan.model.rank_heads == 0;
  layout_.hybrid_mla =
      layout_.mla && std::count(plan.states.begin(), plan.states.end(), state_type::mamba) != 0;
  layout_.ranks.tp = rank;
  layout_.ranks.tp_size = prefill ? plan.prefill_ranks : plan.decode_ranks;
  if (prefill) {
    layout_.kv_heads = plan.heads();
    layout_.model_layers = layout_.end_layer = plan.model.layers;
  }
  add_kv(plan);
  add_states(plan);
  add_aux();
  make_free(aux_, plan.rooms_at_a_time);
}

rank_memory::~rank_memory() {
  ::munmap(mapped_.data(), mapped_.size());
}

handoff::kv_buffer rank_memory::add_tensor(item_space& space, tensor made, std::uint32_t items,
                                           std::uint32_t layer) {
  constexpr std::size_t page = 4096;
  const auto bytes = std::size_t{items} * made.item_bytes;
  PEERCACHE_ASSERT(bytes <= mapped_.size() - used_);
  made.bytes = mapped_.subspan(used_, bytes);
  used_ += (bytes + page - 1) / page * page;
  handoff::kv_buffer buffer;
  buffer.address = reinterpret_cast<std::uintptr_t>(made.bytes.data());
  buffer.length_bytes = bytes;
  buffer.item_bytes = made.item_bytes;
  buffer.layer = layer;
  space.tensors.push_back(std::move(made));
  return buffer;
}

void rank_memory::add_kv(const handoff_plan& plan) {
  const auto heads = layout_.mla ? 1 : plan.heads() / layout_.ranks.tp_size;
  for (std::uint32_t kind = 0; kind < (layout_.mla ? 1u : 2u); ++kind)
    for (std::uint32_t layer = 0; layer < plan.model.layers; ++layer) {
      tensor made;
      made.item_bytes = layout_.page_tokens * heads * plan.model.head_bytes;
      made.name = 1'000'000 + std::uint64_t{kind} * 1000 + layer;
      made.rows = layout_.page_tokens;
      made.units = heads;
      for (std::uint32_t i = 0; i < heads; ++i)
        made.unit_names.push_back(layout_.mla ? 0 : layout_.ranks.tp * heads + i);
      layout_.buffers.push_back(add_tensor(kv_, std::move(made), plan.pages(), layer));
    }
  make_free(kv_, plan.pages());
}

void rank_memory::add_mamba(const handoff_plan& plan, item_space& space,
                            handoff::state_component& component) {
  struct shape {
    std::uint32_t rows, unit_bytes;
    std::vector<std::uint32_t> groups;
  };
  const auto ranks = layout_.ranks.tp_size;
  for (const auto& each : {shape{3, 128, {8, 8, 16}}, shape{1, 512, {32}}})
    for (std::uint32_t layer = 0; layer < state_layers; ++layer) {
      tensor made;
      made.name = 2'000'000 + std::uint64_t{each.unit_bytes} * 1000 + layer;
      made.rows = each.rows;
      made.units = 32 / ranks;
      for (std::uint32_t group = 0, begin = 0; group < each.groups.size();
           begin += each.groups[group++])
        for (std::uint32_t i = 0; i < each.groups[group] / ranks; ++i)
          made.unit_names.push_back(begin + layout_.ranks.tp * (each.groups[group] / ranks) + i);
      made.item_bytes = made.rows * made.units * each.unit_bytes;
      handoff::state_tensor described;
      described.dim = made.units;
      described.outer_count = each.rows;
      if (each.groups.size() > 1)
        described.conv_groups = each.groups;
      described.buffer = add_tensor(space, std::move(made), plan.rooms_at_a_time, layer);
      component.tensors.push_back(std::move(described));
    }
  make_free(space, plan.rooms_at_a_time);
}

void rank_memory::add_states(const handoff_plan& plan) {
  states_.resize(plan.states.size());
  for (std::size_t at = 0; at < states_.size(); ++at) {
    auto& component = layout_.states.emplace_back();
    component.type = plan.states[at];
    if (component.type == state_type::mamba) {
      add_mamba(plan, states_[at], component);
      continue;
    }
    // Index states have an item for each page of a sequence, prefix included, so all rooms together
    // need more items than KV pages.
    const auto items = plan.pages() * 2;
    for (std::uint32_t layer = 0; layer < state_layers; ++layer) {
      tensor made;
      made.item_bytes = component.type == state_type::swa ? swa_item_bytes
                                                          : dsa_token_bytes * layout_.page_tokens;
      made.name = 3'000'000 + static_cast<std::uint64_t>(component.type) * 1000 + layer;
      made.unit_names = {0};
      handoff::state_tensor described;
      described.buffer = add_tensor(states_[at], std::move(made), items, layer);
      component.tensors.push_back(std::move(described));
    }
    make_free(states_[at], items);
  }
}

void rank_memory::add_aux() {
  constexpr std::uint32_t rows = cells_max;
  for (std::uint32_t field = 0; field < std::size(aux_bytes); ++field) {
    tensor made;
    made.item_bytes = aux_bytes[field];
    made.name = 4'000'000 + field;
    made.unit_names = {0};
    layout_.aux.push_back(add_tensor(aux_, std::move(made), rows, handoff::no_layer));
  }
}

void rank_memory::make_free(item_space& space, std::uint32_t items) {
  space.given_back.resize(items);
  space.free.resize(items);
  std::iota(space.free.rbegin(), space.free.rend(), 0u);
  for (std::uint32_t item = 0; item < items; ++item)
    scramble(space, item);
}

void rank_memory::scramble(item_space& space, std::uint32_t item) {
  const auto count = ++space.given_back[item];
  // Begins with the last tensor, which a transfer sends last: a transfer that still runs meets the
  // words of a free item as early as possible.
  for (auto each = space.tensors.rbegin(); each != space.tensors.rend(); ++each)
    write_words(each->item(item), each->item_bytes, word_of(0, each->name, item, count));
}

bool rank_memory::is_nobodys(const item_space& space, std::uint32_t item) const {
  return std::all_of(space.tensors.begin(), space.tensors.end(), [&](const tensor& each) {
    return has_words(each.item(item), each.item_bytes,
                     word_of(0, each.name, item, space.given_back[item]));
  });
}

std::vector<std::uint32_t> rank_memory::item_space::take(std::uint32_t count) {
  std::vector<std::uint32_t> taken(free.end() - count, free.end());
  free.resize(free.size() - count);
  std::reverse(taken.begin(), taken.end());
  return taken;
}

/// Counts a late write for each of these items that was written to while it was free.
void rank_memory::check_taken(item_space& space, std::span<const std::uint32_t> items) {
  for (const auto item : items)
    late_writes_ += is_nobodys(space, item) ? 0 : 1;
}

std::optional<room_items> rank_memory::take(const room_plan& room) {
  const auto wanted = [&](std::size_t component) {
    const auto type = layout_.states[component].type;
    return type == state_type::mamba ? 1u
           : type == state_type::swa ? room.window
                                     : room.prefix_pages + room.pages;
  };
  bool enough = kv_.free.size() >= room.pages && !aux_.free.empty();
  for (std::size_t i = 0; i < states_.size(); ++i)
    enough = enough && states_[i].free.size() >= wanted(i);
  if (!enough)
    return std::nullopt;
  room_items items;
  items.prefix_pages = room.prefix_pages;
  items.pages = kv_.take(room.pages);
  check_taken(kv_, items.pages);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const bool window = layout_.states[i].type == state_type::swa;
    handoff::state_items taken;
    taken.first_page = window ? room.prefix_pages + room.pages - room.window : 0;
    taken.items = states_[i].take(wanted(i));
    check_taken(states_[i], taken.items);
    items.states.push_back(std::move(taken));
  }
  const auto row = aux_.take(1);
  check_taken(aux_, row);
  items.aux_row = row.front();
  return items;
}

template <class Visit>
void rank_memory::visit(const item_space& space, std::uint32_t item, std::uint64_t serial,
                        std::uint64_t place, Visit visit) {
  for (const auto& each : space.tensors) {
    const auto unit_bytes = each.item_bytes / each.rows / each.units;
    auto* at = each.item(item);
    for (std::uint32_t row = 0; row < each.rows; ++row)
      for (const auto unit : each.unit_names) {
        visit(at, unit_bytes, word_of(serial, each.name, place, row, unit));
        at += unit_bytes;
      }
  }
}

void rank_memory::fill(const room_items& items, std::uint64_t serial, std::uint32_t first,
                       std::uint32_t count) {
  for (auto i = first; i < first + count; ++i)
    visit(kv_, items.pages[i], serial, items.prefix_pages + i, write_words);
}

void rank_memory::fill_last(const room_items& items, std::uint64_t serial) {
  for (std::size_t kind = 0; kind < states_.size(); ++kind) {
    const auto& of_kind = items.states[kind];
    for (std::size_t i = 0; i < of_kind.items.size(); ++i)
      visit(states_[kind], of_kind.items[i], serial, of_kind.first_page + i, write_words);
  }
  visit(aux_, items.aux_row, serial, 0, write_words);
}

std::uint64_t rank_memory::wrong_items(const room_items& items, std::uint64_t serial) const {
  std::uint64_t wrong = 0;
  const auto check = [&](const item_space& space, std::uint32_t item, std::uint64_t place) {
    bool right = true;
    visit(space, item, serial, place,
          [&](const std::byte* at, std::size_t bytes, std::uint32_t first) {
            right = right && has_words(at, bytes, first);
          });
    wrong += right ? 0 : 1;
  };
  for (std::size_t i = 0; i < items.pages.size(); ++i)
    check(kv_, items.pages[i], items.prefix_pages + i);
  for (std::size_t kind = 0; kind < states_.size(); ++kind) {
    const auto& of_kind = items.states[kind];
    for (std::size_t i = 0; i < of_kind.items.size(); ++i)
      check(states_[kind], of_kind.items[i], of_kind.first_page + i);
  }
  check(aux_, items.aux_row, 0);
  return wrong;
}

void rank_memory::give_back(const room_items& items) {
  const auto give = [&](item_space& space, std::span<const std::uint32_t> of_space) {
    for (const auto item : of_space)
      scramble(space, item);
    space.free.insert(space.free.end(), of_space.rbegin(), of_space.rend());
  };
  give(kv_, items.pages);
  for (std::size_t i = 0; i < states_.size(); ++i)
    give(states_[i], items.states[i].items);
  give(aux_, {&items.aux_row, 1});
}

} // namespace peercache::handoff_stress
