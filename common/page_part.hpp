#pragma once

#include <cstddef>
#include <cstdint>

namespace peercache {

/// A piece of the caller's memory that receives a page or a part of a page.
struct page_part {
  std::byte* data = nullptr;
  std::uint32_t bytes = 0;
};

} // namespace peercache
