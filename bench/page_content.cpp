#include "bench/page_content.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::bench {

namespace {

constexpr unsigned index_bits = 18;
constexpr unsigned version_bits = 14;
constexpr std::uint64_t index_mask = (std::uint64_t{1} << index_bits) - 1;
static_assert(index_bits + version_bits == 32);
static_assert(page_version_max == (1u << version_bits) - 1);

std::uint64_t load_word(std::span<const std::byte> page, std::size_t index) noexcept {
  std::uint64_t word = 0;
  auto offset = index * sizeof word;
  std::memcpy(&word, page.data() + offset, std::min(sizeof word, page.size() - offset));
  return word;
}

std::uint32_t differing_bytes(std::uint64_t a, std::uint64_t b, std::size_t bytes) noexcept {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    count += ((a ^ b) >> (8 * i) & 0xff) != 0;
  return count;
}

} // namespace

std::uint64_t page_word(std::uint32_t id, std::uint32_t version, std::size_t index) noexcept {
  return std::uint64_t{id} << 32 | std::uint64_t{version} << index_bits | (index & index_mask);
}

void fill_page(std::uint32_t id, std::uint32_t version, std::span<std::byte> page) noexcept {
  PEERCACHE_ASSERT(version <= page_version_max);
  auto words = page.size() / 8;
  for (std::size_t i = 0; i < words; ++i) {
    auto word = page_word(id, version, i);
    std::memcpy(page.data() + i * 8, &word, 8);
  }
  auto tail = page_word(id, version, words);
  if (page.size() % 8 != 0)
    std::memcpy(page.data() + words * 8, &tail, page.size() % 8);
}

page_check check_page(std::uint32_t id, std::span<const std::byte> page) noexcept {
  page_check check{.found_id = id};
  if (page.empty())
    return check;
  check.version = static_cast<std::uint32_t>(load_word(page, 0) >> index_bits) & page_version_max;
  auto words = (page.size() + 7) / 8;
  for (std::size_t i = 0; i < words; ++i) {
    auto bytes = std::min<std::size_t>(8, page.size() - i * 8);
    auto wanted = page_word(id, check.version, i);
    auto found = load_word(page, i);
    if (found == wanted)
      continue;
    if (auto wrong = differing_bytes(found, wanted, bytes)) {
      if (check.wrong_bytes == 0)
        check.found_id = static_cast<std::uint32_t>(found >> 32);
      check.wrong_bytes += wrong;
    }
  }
  return check;
}

} // namespace peercache::bench
