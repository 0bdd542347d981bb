#pragma once

#include "storage/disk/disk_store.hpp"
#include "storage/disk/io/request_line.hpp"

#include <cstdint>

namespace peercache::storage {

/// Where the record of a page goes: a block with its header, then the page.
struct page_place {
  disk_file file;
  std::uint64_t offset_bytes = 0; ///< Where the header begins.
};

/// Adds the transfers of a record, with tags of this slot: one for a small page, whose requests
/// cost more than its bytes, else two, so that the page goes out of registered memory.
/// @param header Stays put, as the page's memory does, until they have completed.
/// @return how many they are.
std::uint32_t add_page_write(request_line& line, const page_place& to, std::byte* header,
                             const disk_write& page, std::uint32_t slot);

} // namespace peercache::storage
