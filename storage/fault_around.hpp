#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache::storage {

/// Reads a byte of each 64 KiB of shared memory that is about to be written, the last one first.
/// The first write to a page of the kernel maps this page alone, in 1 to 2 µs. The first read of
/// one maps the pages around it, too, as far as the memory is there: 64 KiB where nobody has
/// changed `fault_around_bytes` (Linux's do_fault_around), for writing where the memory is shared.
/// They are those of an aligned window, but 16 from the mapping's begin on where it begins inside
/// of one: read in order, the rest of the second window would not be mapped. What is mapped already
/// costs a read. Threads: any; nobody else may write to the memory meanwhile.
inline void map_around(std::span<const std::byte> bytes) noexcept {
  constexpr std::uintptr_t around_bytes = 64u << 10;
  for (auto end = bytes.size(); end > 0;) {
    const auto last = reinterpret_cast<std::uintptr_t>(bytes.data() + end - 1);
    end -= std::min<std::size_t>(end, last % around_bytes + 1);
    (void)*static_cast<const volatile std::byte*>(bytes.data() + end);
  }
}

} // namespace peercache::storage
