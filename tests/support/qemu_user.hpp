#pragma once

#include <cstddef>
#include <sys/mman.h>
#include <unistd.h>

namespace peercache {

/// Whether qemu-user runs this program (scripts/test-arm64), which does not carry out every call:
/// it answers 0 to any advice of madvise, where the kernel refuses one that it does not know.
inline bool under_qemu_user() {
  constexpr int no_advice = 12345;
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return false;
  const bool ignored = ::madvise(page, size, no_advice) == 0;
  ::munmap(page, size);
  return ignored;
}

} // namespace peercache
