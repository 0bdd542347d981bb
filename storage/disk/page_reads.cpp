#include "storage/disk/page_reads.hpp"

namespace peercache::storage {

void page_reads::start(const read_op& read, std::uint64_t offset_bytes) {
  const auto slot = reads_.add(read);
  disk_request request;
  request.what = disk_request::kind::read;
  request.file = read.file;
  request.offset_bytes = offset_bytes;
  request.memory = read.request.memory;
  request.bytes = static_cast<std::uint32_t>(in_blocks(read.record.page.length_bytes));
  request.tag = tag_of(slot, request_part::read);
  line_.add(request);
  table_.pin(read.record.sequence);
}

read_op page_reads::finish(std::uint32_t slot) {
  auto read = reads_.take(slot);
  table_.unpin(read.record.sequence);
  return read;
}

} // namespace peercache::storage
