#pragma once

#include "storage/disk/bucket/bucket_format.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <cstdint>
#include <vector>

namespace peercache::storage {

/// The content of one bucket as a start found it.
struct bucket_scan {
  std::uint64_t id = 0;
  std::uint64_t file_bytes = 0;
  bool readable = true; ///< False: the device would not let us read it.
  bool sealed = false;  ///< The file has a footer that is whole.
  /// Where the last group or page that is whole ends; nothing behind it is kept.
  std::uint64_t end_bytes = 0;
  std::vector<record_header> records;
  std::uint64_t torn = 0;
  std::uint64_t foreign = 0;
  std::uint64_t corrupt = 0;
};

/// Reads the footer of a sealed bucket; without one that is whole, walks the groups and compares
/// the checksum of every page, because nobody knows which of them were durable.
/// @param verify Also the pages of a sealed bucket.
/// Threads: any.
bucket_scan scan_bucket(const disk_io& io, std::uint64_t id, std::uint64_t file_bytes,
                        const record_owner& owner, bool verify);

} // namespace peercache::storage
