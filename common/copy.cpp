#include "common/copy.hpp"

#include "common/checksum.hpp"

#include <cstring>
#include <emmintrin.h>

namespace peercache {

void copy_page(std::span<std::byte> to, std::span<const std::byte> from) noexcept {
  copy_part(to, from, nullptr);
  copy_fence();
}

std::uint64_t copy_page_and_checksum(std::span<std::byte> to,
                                     std::span<const std::byte> from) noexcept {
  copy_page(to, from);
  return checksum_of(from);
}

void copy_part(std::span<std::byte> to, std::span<const std::byte> from,
               checksum_stream* digest) noexcept {
  if (!from.empty())
    std::memcpy(to.data(), from.data(), from.size());
  if (digest != nullptr)
    digest->update(from);
}

void copy_fence() noexcept {
  _mm_sfence();
}

const char* copy_instruction_set() noexcept {
  return "generic";
}

} // namespace peercache
