#include "tests/scenario/handoff/handoff_memory.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::handoff::test {
namespace {

constexpr std::uint32_t word_bytes = 8;
constexpr std::uint32_t model_heads = 2;

/// Aux rows are no place of a sequence.
constexpr std::uint32_t aux_place = 99;

} // namespace

std::uint64_t rank_memory::buffer::address() const noexcept {
  return reinterpret_cast<std::uintptr_t>(words.data());
}

bool rank_memory::buffer::has(std::uint64_t asked) const noexcept {
  return asked >= address() && asked < address() + words.size() * word_bytes;
}

rank_memory::rank_memory(const small_model& model, std::uint32_t rank, bool prefill)
    : model_(model), rank_(rank),
      heads_(model.mla ? 1 : model_heads / (prefill ? model.prefill_ranks : model.decode_ranks)),
      prefill_(prefill) {
  for (int kv = 0; kv < (model.mla ? 1 : 2); ++kv)
    add_buffer(page_tokens * heads_);
  add_buffer(1);
}

void rank_memory::add_buffer(std::uint32_t item_words) {
  buffers_.push_back(
      {std::vector<std::uint64_t>(std::size_t{page_count} * item_words), item_words});
}

kv_layout rank_memory::layout() const {
  kv_layout made;
  made.dtype = "bfloat16";
  made.page_tokens = page_tokens;
  made.mla = model_.mla;
  made.ranks = {rank_, prefill_ ? model_.prefill_ranks : model_.decode_ranks, 0, 1, 0, 1};
  if (prefill_) {
    made.kv_heads = model_.mla ? 0 : model_heads;
    made.end_layer = made.model_layers = 1;
  }
  for (const auto& each : buffers_) {
    const kv_buffer told{each.address(), each.words.size() * word_bytes,
                         each.item_words * word_bytes, no_layer};
    (&each == &buffers_.back() ? made.aux : made.buffers).push_back(told);
  }
  return made;
}

std::uint64_t rank_memory::value(std::uint64_t serial, std::uint32_t place, std::size_t kv,
                                 std::uint32_t word) const noexcept {
  const auto token = word / heads_;
  const auto head = model_.mla ? 0 : rank_ * heads_ + word % heads_;
  return (serial << 32) + (place << 8) + (kv << 4) + token * model_heads + head + 1;
}

void rank_memory::fill(std::uint32_t page, std::uint64_t serial, std::uint32_t place) {
  for (std::size_t kv = 0; kv + 1 < buffers_.size(); ++kv) {
    auto& at = buffers_[kv];
    for (std::uint32_t word = 0; word < at.item_words; ++word)
      at.words[std::size_t{page} * at.item_words + word] = value(serial, place, kv, word);
  }
}

void rank_memory::fill_aux(std::uint32_t row, std::uint64_t serial) {
  buffers_.back().words[row] = (serial << 32) + aux_place;
}

bool rank_memory::has(std::uint32_t page, std::uint64_t serial, std::uint32_t place) const {
  for (std::size_t kv = 0; kv + 1 < buffers_.size(); ++kv) {
    const auto& at = buffers_[kv];
    for (std::uint32_t word = 0; word < at.item_words; ++word)
      if (at.words[std::size_t{page} * at.item_words + word] != value(serial, place, kv, word))
        return false;
  }
  return true;
}

bool rank_memory::has_aux(std::uint32_t row, std::uint64_t serial) const {
  return buffers_.back().words[row] == (serial << 32) + aux_place;
}

void rank_memory::scramble(std::uint32_t page, std::mt19937_64& random) {
  for (auto& at : buffers_)
    for (std::uint32_t word = 0; word < at.item_words; ++word)
      at.words[std::size_t{page} * at.item_words + word] = random();
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
