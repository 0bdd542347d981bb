#include "tests/scenario/handoff/handoff_memory.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::handoff::test {
namespace {

constexpr std::uint32_t word_bytes = 8;

} // namespace

std::span<std::uint64_t> rank_memory::buffer::item(std::uint32_t number) {
  return std::span(words).subspan(std::size_t{number} * item_words, item_words);
}

std::span<const std::uint64_t> rank_memory::buffer::item(std::uint32_t number) const {
  return std::span(words).subspan(std::size_t{number} * item_words, item_words);
}

std::uint64_t rank_memory::buffer::address() const noexcept {
  return reinterpret_cast<std::uintptr_t>(words.data());
}

bool rank_memory::buffer::has(std::uint64_t asked) const noexcept {
  return asked >= address() && asked < address() + words.size() * word_bytes;
}

rank_memory::rank_memory(const small_model& model, std::uint32_t worker, bool prefill)
    : model_(model), ranks_(model.ranks_of(worker, prefill)), prefill_(prefill) {
  const bool all_layers = ranks_.pp_size != model.prefill_stages;
  const auto first = all_layers ? 0 : ranks_.pp;
  const auto end = all_layers ? model.prefill_stages : ranks_.pp + 1;
  const auto each_layer = [&](kind of, std::uint32_t item_words) {
    for (auto layer = first; layer < end; ++layer)
      add_buffer(of, layer, item_words);
  };
  const auto heads = model.mla ? 1 : small_model::heads / ranks_.tp_size;
  each_layer(kind::k, small_model::page_tokens * heads);
  if (!model.mla)
    each_layer(kind::v, small_model::page_tokens * heads);
  if (model.mamba)
    each_layer(kind::mamba, small_model::mamba_groups * small_model::heads / ranks_.tp_size);
  if (model.swa)
    each_layer(kind::swa, 1);
  add_buffer(kind::aux, 0, 1);
}

void rank_memory::add_buffer(kind of, std::uint32_t layer, std::uint32_t item_words) {
  buffers_.push_back(
      {std::vector<std::uint64_t>(std::size_t{page_count} * item_words), item_words, of, layer});
}

kv_layout rank_memory::layout() const {
  kv_layout made;
  made.dtype = "bfloat16";
  made.page_tokens = small_model::page_tokens;
  made.mla = model_.mla;
  made.hybrid_mla = model_.mla && model_.mamba;
  made.ranks = ranks_;
  if (prefill_) {
    made.all_cp_ranks_send = model_.all_cp_ranks_send;
    made.kv_heads = model_.mla ? 0 : small_model::heads;
    made.first_layer = ranks_.pp;
    made.end_layer = ranks_.pp + 1;
    made.model_layers = model_.prefill_stages;
  }
  for (const auto& each : buffers_) {
    const auto bytes = each.item_words * word_bytes;
    if (each.is_kv())
      made.buffers.push_back({each.address(), each.words.size() * word_bytes, bytes, each.layer});
    else if (each.of == kind::aux)
      made.aux.push_back({each.address(), each.words.size() * word_bytes, bytes, no_layer});
    else
      add_state(made, each);
  }
  return made;
}

/// Adds a state's buffer to the layout. Buffers of one kind follow one another, and form one
/// component.
void rank_memory::add_state(kv_layout& layout, const buffer& from) const {
  const auto type = from.of == kind::mamba ? state_type::mamba : state_type::swa;
  if (layout.states.empty() || layout.states.back().type != type)
    layout.states.push_back({type, {}});
  state_tensor tensor;
  tensor.buffer = {from.address(), from.words.size() * word_bytes, from.item_words * word_bytes,
                   from.layer};
  if (type == state_type::mamba) {
    tensor.dim = from.item_words;
    tensor.outer_count = 1;
    tensor.conv_groups.assign(small_model::mamba_groups, small_model::heads);
  }
  layout.states.back().tensors.push_back(std::move(tensor));
}

std::vector<state_items> rank_memory::states_of(std::span<const std::uint32_t> pages,
                                                std::uint32_t first_page,
                                                std::uint32_t window) const {
  std::vector<state_items> states;
  if (model_.mamba)
    states.push_back({0, {pages[0]}});
  const auto of_window = pages.last(window);
  if (model_.swa)
    states.push_back({first_page + static_cast<std::uint32_t>(pages.size()) - window,
                      {of_window.begin(), of_window.end()}});
  return states;
}

std::uint64_t rank_memory::value(const buffer& in, std::uint64_t serial, std::uint32_t place,
                                 std::uint32_t word) const noexcept {
  // Within each group of units (K's or V's heads, mamba's groups) a rank has consecutive units.
  const auto local = small_model::heads / ranks_.tp_size;
  const bool whole = in.of == kind::swa || in.of == kind::aux || (model_.mla && in.is_kv());
  const auto unit =
      whole ? word : word / local * small_model::heads + ranks_.tp * local + word % local;
  return (serial << 32) + (place << 12) + (static_cast<std::uint32_t>(in.of) << 8) +
         (in.layer << 4) + unit + 1;
}

void rank_memory::fill(buffer& in, std::uint32_t item, std::uint64_t serial, std::uint32_t place) {
  const auto words = in.item(item);
  for (std::uint32_t word = 0; word < words.size(); ++word)
    words[word] = value(in, serial, place, word);
}

bool rank_memory::has(const buffer& in, std::uint32_t item, std::uint64_t serial,
                      std::uint32_t place) const {
  const auto words = in.item(item);
  for (std::uint32_t word = 0; word < words.size(); ++word)
    if (words[word] != value(in, serial, place, word))
      return false;
  return true;
}

void rank_memory::fill(std::uint32_t page, std::uint64_t serial, std::uint32_t place) {
  for (auto& each : buffers_)
    if (each.is_kv())
      fill(each, page, serial, place);
}

void rank_memory::fill_last(std::span<const std::uint32_t> pages, std::uint64_t serial,
                            std::uint32_t first_page, std::uint32_t window) {
  if (ranks_.cp != 0)
    return;
  // A decode engine without pipeline stages takes the aux row from prefill's last stage only.
  const bool has_row = model_.decode_stages != 1 || ranks_.pp + 1 == ranks_.pp_size;
  for (auto& each : buffers_)
    if (each.of == kind::mamba || (each.of == kind::aux && has_row))
      fill(each, pages[0], serial, 0);
    else if (each.of == kind::swa)
      for (auto i = pages.size() - window; i < pages.size(); ++i)
        fill(each, pages[i], serial, first_page + static_cast<std::uint32_t>(i));
}

bool rank_memory::has(std::uint32_t page, std::uint64_t serial, std::uint32_t place) const {
  return std::all_of(buffers_.begin(), buffers_.end(), [&](const buffer& each) {
    return !each.is_kv() || has(each, page, serial, place);
  });
}

bool rank_memory::has_states(std::span<const std::uint32_t> pages, std::uint64_t serial,
                             std::uint32_t first_page, std::uint32_t window) const {
  bool all = true;
  for (const auto& each : buffers_)
    if (each.of == kind::mamba)
      all &= has(each, pages[0], serial, 0);
    else if (each.of == kind::swa)
      for (auto i = pages.size() - window; i < pages.size(); ++i)
        all &= has(each, pages[i], serial, first_page + static_cast<std::uint32_t>(i));
  return all;
}

bool rank_memory::has_aux(std::uint32_t row, std::uint64_t serial) const {
  return has(buffers_.back(), row, serial, 0);
}

void rank_memory::scramble(std::uint32_t page, std::mt19937_64& random) {
  for (auto& at : buffers_)
    for (auto& word : at.item(page))
      word = random();
}

std::size_t rank_memory::buffer_at(std::uint64_t address) const {
  const auto found = std::find_if(buffers_.begin(), buffers_.end(),
                                  [address](const auto& each) { return each.has(address); });
  PEERCACHE_ASSERT(found != buffers_.end());
  return static_cast<std::size_t>(found - buffers_.begin());
}

std::span<std::uint64_t> rank_memory::words_at(std::uint64_t address, std::uint32_t bytes) {
  auto& lies = buffers_[buffer_at(address)];
  return std::span(lies.words).subspan((address - lies.address()) / word_bytes, bytes / word_bytes);
}

std::uint32_t rank_memory::page_at(std::uint64_t address) const {
  const auto& lies = buffers_[buffer_at(address)];
  return static_cast<std::uint32_t>((address - lies.address()) / word_bytes / lies.item_words);
}

std::vector<std::uint32_t> page_owners::take(std::uint64_t serial, std::uint32_t count) {
  std::vector<std::uint32_t> taken;
  taken.reserve(count);
  for (std::uint32_t page = 0; page < owners_.size() && taken.size() < count; ++page)
    if (owners_[page] == nobody)
      taken.push_back(page);
  if (taken.size() < count)
    return {};
  for (auto page : taken)
    owners_[page] = serial;
  return taken;
}

std::vector<std::uint32_t> page_owners::give_back(std::uint64_t serial) {
  std::vector<std::uint32_t> given;
  given.reserve(owners_.size());
  for (std::uint32_t page = 0; page < owners_.size(); ++page)
    if (owners_[page] == serial) {
      owners_[page] = nobody;
      given.push_back(page);
    }
  return given;
}

} // namespace peercache::handoff::test
