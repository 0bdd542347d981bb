#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace peercache {

/// Where the bytes of a hit came from.
enum class page_origin : std::uint8_t {
  none,
  own_host,
  other_host, ///< Another host's pool, over TCP.
  disk,
  other_host_rdma,
};

/// The word of each origin, indexed by `page_origin`. Answers, tables, metrics and documents take
/// the words from here and nowhere else.
inline constexpr std::array<std::string_view, 5> page_origin_words{"none", "own_host", "other_host",
                                                                   "disk", "other_host_rdma"};
inline constexpr std::size_t page_origin_count = page_origin_words.size();

/// The words of all origins except `none`, that is, of the sources that a page can have. Source i
/// is origin i + 1.
inline constexpr std::span<const std::string_view> page_source_words =
    std::span{page_origin_words}.subspan<1>();

constexpr std::string_view to_string(page_origin origin) noexcept {
  auto index = static_cast<std::size_t>(origin);
  return index < page_origin_words.size() ? page_origin_words[index] : "unknown";
}

} // namespace peercache
