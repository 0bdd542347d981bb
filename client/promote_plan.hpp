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

/// Pages that nodes are asked to bring into their pools, sorted into one question for each node;
/// interprets the answers. Threads: one. No clock, no I/O.
class promote_plan {
public:
  /// The question to one node: the pages that it should bring into its pool.
  struct share {
    incarnation holder;
    std::string request;                ///< Packed `promoted_page`s.
    std::vector<std::uint32_t> indices; ///< The caller's names of the pages, in the same order.
  };
  struct place {
    std::uint32_t index = 0;
    /// Where the page is in memory now; nothing: it could not be had.
    std::optional<directory::page_location> location;
  };

  /// @param index the caller's name for the page @param at names the holder that is asked, and the
  /// length of the page
  void add(std::uint32_t index, const page_key& key, const directory::page_location& at);
  bool empty() const noexcept { return shares_.empty(); }
  std::span<const share> shares() const noexcept { return shares_; }

  /// Returns how much of the remaining time a node may take: it answers with the pages that it has
  /// before its reader gives up. If the result is not above zero, the node need not be asked.
  static std::chrono::milliseconds patience(std::chrono::milliseconds left);
  /// Returns one `place` for each page of the share. It has no location where the answer is empty
  /// or malformed, or names a disk or another process.
  static std::vector<place> places(const share& asked, std::string_view answer);

private:
  share& share_of(const incarnation& holder);

  std::vector<share> shares_;
};

} // namespace peercache::client
