#include "storage/disk/page_writes.hpp"

#include "storage/disk/page_reads.hpp"

namespace peercache::storage {
namespace {

/// A page of at most this many bytes is written in one request with its header.
constexpr std::uint32_t together_bytes_max = 256u << 10;

} // namespace

std::uint32_t add_page_write(request_line& line, const page_place& to, std::byte* header,
                             const disk_write& page, std::uint32_t slot) {
  disk_request request;
  request.what = disk_request::kind::write;
  request.file = to.file;
  request.offset_bytes = to.offset_bytes;
  request.memory = page.memory;
  request.bytes = static_cast<std::uint32_t>(in_blocks(page.length_bytes));
  request.tag = tag_of(slot, request_part::page);
  if (request.bytes <= together_bytes_max) {
    request.head = header;
    line.add(request);
    return 1;
  }
  request.offset_bytes += disk_block_bytes;
  line.add(request);
  request.offset_bytes = to.offset_bytes;
  request.memory = header;
  request.bytes = disk_block_bytes;
  request.tag = tag_of(slot, request_part::header);
  line.add(request);
  return 2;
}

} // namespace peercache::storage
