#pragma once

#include "common/ids.hpp"
#include "directory/page_location.hpp"
#include "storage/hold_table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Pages that nodes are asked to keep from eviction, sorted into one question for each node;
/// interprets the answers. Threads: one. No clock, no I/O.
class hold_plan {
public:
  /// The question to one node.
  struct share {
    incarnation holder;
    std::string request;                ///< Packed `link::used_page`s.
    std::vector<std::uint32_t> indices; ///< The caller's names of the pages, in `request`'s order.
  };

  /// @param index the caller's name for the page @param at names the holder that is asked
  void add(std::uint32_t index, const directory::page_location& at);
  bool empty() const noexcept { return shares_.empty(); }
  std::span<const share> shares() const noexcept { return shares_; }

  /// What the node's answer says of page `i` of its share; `gone` where the answer is too short or
  /// malformed.
  static storage::hold_outcome outcome(std::string_view answer, std::size_t i) noexcept;

private:
  std::vector<share> shares_;
};

} // namespace peercache::client
