#pragma once

#include "handoff/kv_layout.hpp"

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

namespace peercache::handoff::test {

/// The model that both engines run: two tokens a page, two heads or MLA, one layer.
struct small_model {
  bool mla = false;
  std::uint32_t prefill_ranks = 1;
  std::uint32_t decode_ranks = 1;
};

/// KV pages and aux rows of one rank, in words of eight bytes: one for each head of each token.
/// Each word that the model computes names its request, so that no two requests have an equal one.
/// Addresses are those of the words.
class rank_memory {
public:
  static constexpr std::uint32_t page_count = 10; ///< The number of aux rows is the same.
  static constexpr std::uint32_t page_tokens = 2;

  rank_memory(const small_model& model, std::uint32_t rank, bool prefill);

  kv_layout layout() const;
  /// Writes what the model computes at `place` of the sequence of the request `serial`.
  void fill(std::uint32_t page, std::uint64_t serial, std::uint32_t place);
  void fill_aux(std::uint32_t row, std::uint64_t serial);
  bool has(std::uint32_t page, std::uint64_t serial, std::uint32_t place) const;
  bool has_aux(std::uint32_t row, std::uint64_t serial) const;
  /// Writes what some other owner of the page, and of the aux row of its number, has there.
  void scramble(std::uint32_t page, std::mt19937_64& random);

  /// Words from this address on. @pre they lie in one buffer
  std::span<std::uint64_t> words_at(std::uint64_t address, std::uint32_t bytes);
  /// The page, or the aux row, in which this address lies.
  std::uint32_t page_at(std::uint64_t address) const;

private:
  struct buffer {
    std::vector<std::uint64_t> words;
    std::uint32_t item_words = 0;
    std::uint64_t address() const noexcept;
    bool has(std::uint64_t asked) const noexcept;
  };
  void add_buffer(std::uint32_t item_words);
  std::size_t buffer_at(std::uint64_t address) const;
  std::uint64_t value(std::uint64_t serial, std::uint32_t place, std::size_t kv,
                      std::uint32_t word) const noexcept;

  small_model model_;
  std::uint32_t rank_;
  std::uint32_t heads_; ///< Heads of this rank.
  bool prefill_;
  std::deque<buffer> buffers_; ///< K and V, or MLA's; then the aux rows.
};

/// Which request has which pages of one engine. Its ranks have them in common.
class page_owners {
public:
  static constexpr std::uint64_t nobody = 0;

  /// Pages that were nobody's; none when there are not as many.
  std::vector<std::uint32_t> take(std::uint64_t serial, std::uint32_t count);
  /// Takes the pages from the request, and returns them.
  std::vector<std::uint32_t> give_back(std::uint64_t serial);
  std::uint64_t of(std::uint32_t page) const { return owners_.at(page); }

private:
  std::vector<std::uint64_t> owners_ = std::vector<std::uint64_t>(rank_memory::page_count, nobody);
};

} // namespace peercache::handoff::test
