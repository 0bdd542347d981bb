#pragma once

#include "handoff/transfer_plan.hpp"
#include "tests/scenario/handoff/handoff_model.hpp"

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

namespace peercache::handoff::test {

/// KV pages, states and aux rows of one worker, in words of eight bytes: a page has one word for
/// each head of each token. Each word that the model computes contains its request's number, so
/// words of two requests are never equal. The addresses that the layout tells are the real
/// addresses of these words.
///
/// Items of states are numbered like a request's pages: the request's item of mamba and its aux row
/// have the number of its first page, and an item of the sliding window has the number of the page
/// in the window. So the owner of a page owns all items of that page's number.
class rank_memory {
public:
  /// Number of KV pages, and of items of each kind of state.
  static constexpr std::uint32_t page_count = 10;

  rank_memory(const small_model& model, std::uint32_t worker, bool prefill);

  kv_layout layout() const;
  /// States of a room with these pages, the first of which is at `first_page` of the sequence.
  std::vector<state_items> states_of(std::span<const std::uint32_t> pages, std::uint32_t first_page,
                                     std::uint32_t window) const;
  /// Writes what the model computes at `place` of the sequence of the request `serial`.
  void fill(std::uint32_t page, std::uint64_t serial, std::uint32_t place);
  /// Writes what the model completes after the last page: the states, and the aux row if decode
  /// takes it from this worker.
  void fill_last(std::span<const std::uint32_t> pages, std::uint64_t serial,
                 std::uint32_t first_page, std::uint32_t window);
  bool has(std::uint32_t page, std::uint64_t serial, std::uint32_t place) const;
  bool has_states(std::span<const std::uint32_t> pages, std::uint64_t serial,
                  std::uint32_t first_page, std::uint32_t window) const;
  bool has_aux(std::uint32_t row, std::uint64_t serial) const;
  /// Overwrites the page, and all items of its number, with random words, as another owner would.
  void scramble(std::uint32_t page, std::mt19937_64& random);

  /// Returns the words from this address on. @pre the words lie in one buffer
  std::span<std::uint64_t> words_at(std::uint64_t address, std::uint32_t bytes);
  /// Returns the number of the page, or of the item, in which this address lies.
  std::uint32_t page_at(std::uint64_t address) const;

private:
  enum class kind : std::uint8_t { k, v, mamba, swa, aux };
  struct buffer {
    std::vector<std::uint64_t> words;
    std::uint32_t item_words = 0;
    kind of = kind::k;
    std::uint32_t layer = 0;

    bool is_kv() const noexcept { return of == kind::k || of == kind::v; }
    std::span<std::uint64_t> item(std::uint32_t number);
    std::span<const std::uint64_t> item(std::uint32_t number) const;
    std::uint64_t address() const noexcept;
    bool has(std::uint64_t asked) const noexcept;
  };
  void add_buffer(kind of, std::uint32_t layer, std::uint32_t item_words);
  void add_state(kv_layout& layout, const buffer& from) const;
  std::size_t buffer_at(std::uint64_t address) const;
  std::uint64_t value(const buffer& in, std::uint64_t serial, std::uint32_t place,
                      std::uint32_t word) const noexcept;
  void fill(buffer& in, std::uint32_t item, std::uint64_t serial, std::uint32_t place);
  bool has(const buffer& in, std::uint32_t item, std::uint64_t serial, std::uint32_t place) const;

  small_model model_;
  worker_ranks ranks_;
  bool prefill_;
  std::deque<buffer> buffers_; ///< Buffers of K and V of each layer (one buffer per layer with
                               ///< MLA), of the states, and of the aux rows.
};

/// Says which request has which pages of one engine. The engine's ranks have the same pages of a
/// request.
class page_owners {
public:
  static constexpr std::uint64_t nobody = 0;

  /// Takes `count` free pages for the request; none when fewer are free.
  std::vector<std::uint32_t> take(std::uint64_t serial, std::uint32_t count);
  /// Takes the pages from the request, and returns them.
  std::vector<std::uint32_t> give_back(std::uint64_t serial);
  std::uint64_t of(std::uint32_t page) const { return owners_.at(page); }

private:
  std::vector<std::uint64_t> owners_ = std::vector<std::uint64_t>(rank_memory::page_count, nobody);
};

} // namespace peercache::handoff::test
