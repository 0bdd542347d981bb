#include "storage/disk/bucket/bucket_format.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <vector>

namespace {

using namespace peercache;
using namespace peercache::storage;

constexpr record_owner owner{1, 1};

/// Sets the CRCs of the headers in a block, and of the trailer at its end, to the right values,
/// because readers look at other fields only if the CRC is right.
void seal_all(std::span<std::byte> block) {
  for (std::size_t at = 0; at + sizeof(record_header) <= block.size();
       at += sizeof(record_header)) {
    record_header header;
    std::memcpy(static_cast<void*>(&header), block.data() + at, sizeof header);
    seal(header);
    std::memcpy(block.data() + at, &header, sizeof header);
  }
  const auto trailer = block.last(sizeof(bucket_trailer));
  const auto crc = crc32c(trailer.subspan(16), crc32c(trailer.first(12)));
  std::memcpy(trailer.data() + offsetof(bucket_trailer, trailer_crc), &crc, sizeof crc);
}

/// Reads the bytes as the file of a bucket, which ends with the footer.
void read_as_footer(std::span<const std::byte> file) {
  bucket_trailer trailer;
  if (read_trailer(file.last(sizeof trailer), 0, owner, file.size(), trailer) == record_fault::none)
    (void)read_footer(file.subspan(trailer.footer_offset_bytes), trailer);
}

} // namespace

/// Fuzzes what recovery reads from a disk: groups and footers of buckets, with wrong CRCs, or with
/// right CRCs and wrong fields.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const bool sealed = in.value<std::uint8_t>() % 2 == 0;
  const auto offset = in.value<std::uint32_t>() / disk_block_bytes * disk_block_bytes;
  std::vector<std::byte> block(disk_block_bytes);
  const auto bytes = in.take(block.size());
  std::memcpy(block.data(), bytes.data(), bytes.size());
  if (sealed)
    seal_all(block);
  read_as_footer(block);
  const auto group = read_group(block, owner, offset);
  for (const auto& record : group.records)
    PEERCACHE_ASSERT(record.offset_bytes >= offset &&
                     record.offset_bytes + record.length_bytes <= group.end_bytes);
  return 0;
}
