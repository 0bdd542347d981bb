#include "cli/bench/bench_handoff.hpp"

#include "handoff/transfer_plan.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

namespace peercache::cli {

namespace {

std::uint64_t word_of(std::uint64_t buffer, std::uint64_t place, std::uint64_t token,
                      std::uint64_t head) noexcept {
  auto word = (((buffer * 65'536 + place) * 256 + token) * 256 + head) * 0x9e3779b97f4a7c15ull;
  return word ^ word >> 31;
}

/// Calls `visit(words, first)` for each head of each token of the memory: `words` are the head's
/// words, `first` is the value of the first of them; the value grows by one from word to word.
template <class Byte, class Visit>
void visit_heads(const handoff_shape& shape, std::uint32_t ranks, std::uint32_t rank, bool prefill,
                 std::span<Byte> memory, Visit visit) {
  const auto heads = shape.heads_of(ranks);
  const auto token_bytes = std::size_t{heads} * shape.head_bytes;
  const auto page_bytes = token_bytes * shape.page_tokens;
  const auto buffer_bytes = page_bytes * shape.room_pages * shape.rooms;
  for (std::uint32_t room = 0; room < shape.rooms; ++room) {
    const auto pages = shape.pages_of(room, prefill);
    for (std::uint32_t buffer = 0; buffer < shape.buffers; ++buffer)
      for (std::uint32_t i = 0; i < pages.size(); ++i)
        for (std::uint32_t token = 0; token < shape.page_tokens; ++token)
          for (std::uint32_t head = 0; head < heads; ++head)
            visit(memory.subspan(buffer * buffer_bytes + pages[i] * page_bytes +
                                     token * token_bytes + std::size_t{head} * shape.head_bytes,
                                 shape.head_bytes),
                  word_of(buffer, room * shape.room_pages + i, token, rank * heads + head));
  }
}

} // namespace

handoff::kv_layout handoff_shape::layout(std::uint32_t rank, bool prefill,
                                         std::span<std::byte> memory) const {
  handoff::kv_layout layout;
  layout.dtype = "bfloat16";
  layout.page_tokens = page_tokens;
  layout.ranks.tp = rank;
  layout.ranks.tp_size = prefill ? prefill_ranks : decode_ranks;
  layout.kv_heads = prefill ? heads : 0;
  const auto bytes = memory.size() / buffers;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    handoff::kv_buffer buffer;
    buffer.address = reinterpret_cast<std::uintptr_t>(memory.data() + i * bytes);
    buffer.length_bytes = bytes;
    buffer.item_bytes = page_tokens * heads_of(layout.ranks.tp_size) * head_bytes;
    layout.buffers.push_back(buffer);
  }
  return layout;
}

std::vector<std::uint32_t> handoff_shape::pages_of(std::uint32_t room, bool prefill) const {
  std::vector<std::uint32_t> pages(room_pages);
  std::iota(pages.begin(), pages.end(), room * room_pages);
  if (!scattered)
    return pages;
  std::mt19937_64 random(room * 2 + (prefill ? 1 : 0));
  const auto adjacent = [&] {
    return std::adjacent_find(pages.begin(), pages.end(), [](std::uint32_t a, std::uint32_t b) {
             return b == a + 1;
           }) != pages.end();
  };
  do
    std::shuffle(pages.begin(), pages.end(), random);
  while (pages.size() > 1 && adjacent());
  return pages;
}

void fill_kv(const handoff_shape& shape, std::uint32_t ranks, std::uint32_t rank, bool prefill,
             std::span<std::byte> memory) {
  visit_heads(shape, ranks, rank, prefill, memory,
              [](std::span<std::byte> head, std::uint64_t first) {
                auto* words = reinterpret_cast<std::uint64_t*>(head.data());
                std::iota(words, words + head.size() / sizeof first, first);
              });
}

bool kv_is_right(const handoff_shape& shape, std::uint32_t ranks, std::uint32_t rank, bool prefill,
                 std::span<const std::byte> memory) {
  bool right = true;
  visit_heads(shape, ranks, rank, prefill, memory,
              [&right](std::span<const std::byte> head, std::uint64_t first) {
                const auto* words = reinterpret_cast<const std::uint64_t*>(head.data());
                for (std::size_t i = 0; i < head.size() / sizeof first; ++i)
                  right = right && words[i] == first + i;
              });
  return right;
}

result<double> plan_ns_per_piece(const handoff_shape& shape) {
  // Plans only compute with the addresses, so the memory need not exist.
  const auto layout = [&shape](bool prefill, std::uintptr_t address) {
    const auto ranks = prefill ? shape.prefill_ranks : shape.decode_ranks;
    return shape.layout(0, prefill,
                        {reinterpret_cast<std::byte*>(address), shape.memory_bytes(ranks)});
  };
  const auto plan = handoff::transfer_plan::create(layout(true, std::uintptr_t{1} << 40),
                                                   layout(false, std::uintptr_t{1} << 41));
  if (!plan)
    return plan.error();
  handoff::offered_pages offered;
  offered.pages = shape.pages_of(0, true);
  offered.last = true;
  handoff::allocated_pages room;
  room.pages = shape.pages_of(0, false);
  std::uint64_t pieces = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double, std::nano> took{};
  do {
    auto planned = plan->pieces(offered, room);
    if (!planned)
      return planned.error();
    std::vector<page_part> parts;
    while (planned->next(parts))
      ++pieces;
    took = std::chrono::steady_clock::now() - begin;
  } while (took < std::chrono::milliseconds(50));
  return took.count() / static_cast<double>(pieces);
}

} // namespace peercache::cli
