#pragma once

#include "storage/disk/record.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::storage {

/// A bucket is a file: groups one behind the other, and when it is sealed a footer.
///
///   group   a block of 1 .. 31 record headers, then their pages, each from a block border on
///   footer  the headers of all pages again, and as the last 64 bytes of its last block, and of the
///           file, the trailer
///
/// The trailer of a bucket (little endian; bump `bucket_version` with any change):
///
///   offset  bytes  field
///        0      8  magic         "PCBUCKET"
///        8      4  version
///       12      4  trailer_crc   CRC-32C of the other 60 bytes
///       16      8  id            of the bucket, as in its file's name
///       24      8  space         the cluster that the keys belong to
///       32      8  node          the node that wrote the bucket
///       40      8  footer_offset of the first header of the footer, in bytes
///       48      4  count         number of headers in the footer
///       52      4  records_crc   CRC-32C of the headers
///       56      8  reserved      zero
struct bucket_trailer {
  std::array<char, 8> magic{'P', 'C', 'B', 'U', 'C', 'K', 'E', 'T'};
  std::uint32_t version = 1;
  std::uint32_t trailer_crc = 0;
  std::uint64_t id = 0;
  std::uint64_t space = 0;
  std::uint64_t node = 0;
  std::uint64_t footer_offset_bytes = 0;
  std::uint32_t count = 0;
  std::uint32_t records_crc = 0;
  std::uint64_t reserved = 0;
};

inline constexpr std::uint32_t bucket_version = 1;
/// The limits of what a disk_index's `place` can name: 40 bits for a bucket's id, 24 for a block in
/// it.
inline constexpr std::uint64_t bucket_id_max = (1ull << 40) - 1;
inline constexpr std::uint64_t bucket_bytes_max = 32ull << 30;

static_assert(sizeof(bucket_trailer) == 64);
static_assert(offsetof(bucket_trailer, trailer_crc) == 12);
static_assert(offsetof(bucket_trailer, id) == 16);
static_assert(offsetof(bucket_trailer, space) == 24);
static_assert(offsetof(bucket_trailer, node) == 32);
static_assert(offsetof(bucket_trailer, footer_offset_bytes) == 40);
static_assert(offsetof(bucket_trailer, count) == 48);
static_assert(offsetof(bucket_trailer, records_crc) == 52);

inline constexpr std::string_view bucket_folder = "buckets";

/// The path of a bucket's file below the tier's folder: "buckets/<16 hex digits>.bucket".
std::string bucket_path(std::uint64_t id);
/// The id in a bucket file's name; nothing when the name is not that of a bucket.
std::optional<std::uint64_t> parse_bucket_name(std::string_view name);

/// Frees memory of whole blocks that begins at a block border (see `make_blocks`).
struct free_block {
  void operator()(std::byte* block) const noexcept { std::free(block); }
};
using disk_blocks = std::unique_ptr<std::byte[], free_block>;
/// Memory full of zeros that begins at a block border. @pre `bytes` is a multiple of
/// disk_block_bytes
disk_blocks make_blocks(std::uint64_t bytes);

/// The size in bytes of a footer with `records` headers, in whole blocks.
constexpr std::uint64_t footer_bytes(std::uint64_t records) noexcept {
  return in_blocks(records * sizeof(record_header) + sizeof(bucket_trailer));
}

/// A footer with these headers, footer_bytes(records.size()) long, to be written at `offset_bytes`.
disk_blocks make_footer(std::uint64_t id, const record_owner& owner,
                        std::span<const record_header> records, std::uint64_t offset_bytes);

/// Reads a bucket's trailer from `raw`, the last 64 bytes of its file.
/// @param trailer Gets the trailer, unless it is torn.
/// @return `torn` also when the trailer does not fit a file of `file_bytes`, `foreign` also when it
/// is the trailer of another bucket than `id`.
record_fault read_trailer(std::span<const std::byte> raw, std::uint64_t id,
                          const record_owner& owner, std::uint64_t file_bytes,
                          bucket_trailer& trailer) noexcept;

/// The record headers in a footer whose trailer is good; nothing when one of the headers is faulty.
std::optional<std::vector<record_header>> read_footer(std::span<const std::byte> raw,
                                                      const bucket_trailer& trailer);

/// Sets each header's offset to where its page lies in a group that starts at `offset_bytes`, one
/// page behind the other, and `more` to the number of headers behind it.
/// @return Where the next group would start.
std::uint64_t place_group(std::span<record_header> records, std::uint64_t offset_bytes) noexcept;

/// The record headers that the first block of a group holds.
struct group_headers {
  record_fault fault = record_fault::none; ///< The fault of the first header that is faulty.
  std::vector<record_header> records;      ///< The headers; empty when one of them is faulty.
  std::uint64_t end_bytes = 0;             ///< Where the group ends and the next group would start.
};
group_headers read_group(std::span<const std::byte> block, const record_owner& owner,
                         std::uint64_t offset_bytes);

} // namespace peercache::storage
