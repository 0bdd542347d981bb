#include "cli/page_places.hpp"

#include "cli/members.hpp"
#include "common/limits.hpp"

#include <algorithm>

namespace peercache::cli {

std::size_t find_places(const std::vector<page_key>& keys, const page_finder& find,
                        std::map<std::uint64_t, page_fate>& fates) {
  constexpr std::size_t piece_max = limits::batch_pages_max;
  std::vector<std::vector<page_status>> found((keys.size() + piece_max - 1) / piece_max);
  several_at_a_time(found.size(), [&](std::size_t i) {
    const auto first = i * piece_max;
    found[i] = find(std::span(keys).subspan(first, std::min(piece_max, keys.size() - first)));
  });
  std::size_t unlocated = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto& piece = found[i / piece_max];
    const auto status = i % piece_max < piece.size() ? piece[i % piece_max] : page_status::closed;
    if (status == page_status::hit) {
      fates[keys[i].prefix()].is_there = true;
    } else if (status != page_status::not_found) {
      fates[keys[i].prefix()].is_unknown = true;
      ++unlocated;
    }
  }
  return unlocated;
}

} // namespace peercache::cli
