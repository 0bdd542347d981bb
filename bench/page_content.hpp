#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache::bench {

/// Page contents that name their page and version, so that a reader can tell, without remembering
/// anything, whether a page is exactly what some producer put. Word i (8 bytes, little endian) of a
/// page is
///
///   bits   meaning
///   32-63  id of the page
///   18-31  version: number of the put under this id
///    0-17  i modulo 2^18
///
/// Bytes behind the last full word are the first bytes of the next one. Threads: any. Allocates
/// nothing.
inline constexpr std::uint32_t page_version_max = (1u << 14) - 1;

std::uint64_t page_word(std::uint32_t id, std::uint32_t version, std::size_t index) noexcept;

/// Fills a page with the words of page `id` in this version. @pre version <= page_version_max
void fill_page(std::uint32_t id, std::uint32_t version, std::span<std::byte> page) noexcept;

struct page_check {
  std::uint64_t wrong_bytes = 0;
  /// The id in the first wrong word; the id that was asked for when no word is wrong.
  std::uint32_t found_id = 0;
  std::uint32_t version = 0; ///< The version that the page's first word names.
};

/// Counts the bytes that differ from page `id` in the version that the page's first word names: a
/// page made of two versions, or of two pages, has wrong bytes.
page_check check_page(std::uint32_t id, std::span<const std::byte> page) noexcept;

} // namespace peercache::bench
