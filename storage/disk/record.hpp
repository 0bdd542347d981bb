#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::storage {

/// The header of a page on disk, the same in all stores (little endian; bump `record_version` with
/// any change):
///
///   offset  bytes  field
///        0      8  magic         "PCRECORD"
///        8      4  version
///       12      4  header_crc    CRC-32C of the other 124 bytes
///       16     32  key           the page's key (common/key_epoch.hpp has its bytes)
///       48      8  space         the cluster that the keys belong to
///       56      8  node          the node that wrote the page
///       64      8  generation    of the pool's slot that the page was written from
///       72      8  sequence      number of the record; a newer record of a folder has a higher one
///       80      8  written_s     seconds since 1970 when the page was written
///       88      8  checksum      XXH3-64 of the page
///       96      8  offset        of the page's first byte in its file, in bytes
///      104      4  length        of the page, in bytes
///      108      4  more          headers that follow in the same block; 0 where there is no group
///      112     16  reserved      zero
///
/// The page itself starts at a block border and ends in a block of its own, filled up with whatever
/// lay behind the page in memory.
struct record_header {
  std::array<char, 8> magic{'P', 'C', 'R', 'E', 'C', 'O', 'R', 'D'};
  std::uint32_t version = 2;
  std::uint32_t header_crc = 0;
  page_key key;
  std::uint64_t space = 0;
  std::uint64_t node = 0;
  std::uint64_t gen = 0;
  std::uint64_t sequence = 0;
  std::uint64_t written_s = 0;
  std::uint64_t checksum = 0;
  std::uint64_t offset_bytes = 0;
  std::uint32_t length_bytes = 0;
  std::uint32_t more = 0;
  std::array<std::uint64_t, 2> reserved{};
};

inline constexpr std::uint32_t record_version = 2;
inline constexpr std::uint32_t records_per_block = disk_block_bytes / sizeof(record_header);

static_assert(sizeof(record_header) == 128);
static_assert(offsetof(record_header, header_crc) == 12);
static_assert(offsetof(record_header, key) == 16);
static_assert(offsetof(record_header, space) == 48);
static_assert(offsetof(record_header, node) == 56);
static_assert(offsetof(record_header, gen) == 64);
static_assert(offsetof(record_header, sequence) == 72);
static_assert(offsetof(record_header, written_s) == 80);
static_assert(offsetof(record_header, checksum) == 88);
static_assert(offsetof(record_header, offset_bytes) == 96);
static_assert(offsetof(record_header, length_bytes) == 104);
static_assert(offsetof(record_header, more) == 108);

/// The node and the cluster whose records a folder may have; records of another node or cluster are
/// foreign.
struct record_owner {
  std::uint64_t space = 0;
  std::uint64_t node = 0;
};

enum class record_fault : std::uint8_t {
  none,
  empty,   ///< No record was ever written in this place.
  torn,    ///< The bytes are not a header, or their CRC differs.
  version, ///< The record has another format version.
  foreign, ///< The record is of another cluster or node.
  bad_size ///< No page has the header's length, or the header's offset is not at a block border.
};

/// Fills in the header's magic, version and CRC.
void seal(record_header& header) noexcept;

/// Reads a record header and checks it. @pre `raw` has sizeof(record_header) bytes or more
/// @param header Gets the header when there is no fault.
record_fault read_record(std::span<const std::byte> raw, const record_owner& owner,
                         record_header& header) noexcept;

/// CRC-32C (Castagnoli), as in RFC 3720. Threads: any. The instruction set is chosen at run time.
/// @param before The CRC of the bytes that come before `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

namespace detail {

/// CRC-32C for CPUs without SSE4.2, and for tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t before) noexcept;

} // namespace detail

} // namespace peercache::storage
