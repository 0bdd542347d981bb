#pragma once

#include "common/page_key.hpp"
#include "directory/page_location.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Pages that nodes are asked to bring into their pools, sorted into questions to each node;
/// interprets the answers. Threads: one. No clock, no I/O.
class promote_plan {
public:
  /// How many questions a node is asked.
  enum class questions : std::uint8_t {
    one, ///< All pages in a single question: nobody waits for them.
    /// The first question has a single page, each later one twice the bytes of the question before
    /// it; pages can be read as soon as their question is answered. The first `small_questions`
    /// have up to `small_bytes_max`; later ones grow without bound, so that 8,192 pages are at most
    /// `questions_max` questions.
    growing
  };
  static constexpr std::uint32_t small_questions = 8;
  static constexpr std::uint64_t small_bytes_max = 8u << 20;
  static constexpr std::uint32_t questions_max = 26;

  /// One question to one node: the pages that it should bring into its pool.
  struct share {
    incarnation holder;
    std::uint32_t before = 0;           ///< Number of earlier questions to this node.
    std::uint64_t bytes = 0;            ///< Lengths of the pages together.
    std::uint64_t bytes_max = 0;        ///< A share of this many bytes takes no more pages.
    std::string request;                ///< Packed `promoted_page`s.
    std::vector<std::uint32_t> indices; ///< The caller's names of the pages, in `request`'s order.
  };
  struct place {
    std::uint32_t index = 0;
    /// Where the page is in memory now; nothing: the page could not be had.
    std::optional<directory::page_location> location;
  };

  explicit promote_plan(questions ask = questions::one) : ask_(ask) {}

  /// @param index the caller's name for the page @param at names the holder that is asked, and the
  /// length of the page
  void add(std::uint32_t index, const page_key& key, const directory::page_location& at);
  bool empty() const noexcept { return shares_.empty(); }
  std::span<const share> shares() const noexcept { return shares_; }

  /// Returns how much of the remaining time a node may take: it answers with the pages that it has
  /// before its reader gives up. If the result is not above zero, the node need not be asked.
  static std::chrono::milliseconds patience(std::chrono::milliseconds left);
  /// Returns one `place` for each page of the share. A place has no location where the answer is
  /// empty or malformed, or names a disk or another process.
  static std::vector<place> places(const share& asked, std::string_view answer);

private:
  share& share_of(const incarnation& holder, std::uint32_t length_bytes);

  questions ask_;
  std::vector<share> shares_;
};

} // namespace peercache::client
