#pragma once

#include "storage/disk/disk_store.hpp"
#include "storage/disk/io/request_line.hpp"

#include <cstdint>

namespace peercache::storage {

/// Where a record is written: a block with its header, then the page.
struct page_place {
  disk_file file;
  std::uint64_t offset_bytes = 0; ///< Where the header begins.
};

/// Adds the requests that write a record, with tags of this slot. A small page takes one request,
/// because a request costs more than the page's bytes; a larger page takes two, so that the page's
/// transfer can use registered memory.
/// @param header The header block; like the page's memory it stays put until the requests have
/// completed.
/// @return How many requests were added.
std::uint32_t add_page_write(request_line& line, const page_place& to, std::byte* header,
                             const disk_write& page, std::uint32_t slot);

} // namespace peercache::storage
