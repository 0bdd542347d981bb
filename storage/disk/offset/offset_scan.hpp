#pragma once

#include "storage/disk/disk_store.hpp"
#include "storage/disk/offset/offset_index.hpp"
#include "storage/disk/record_table.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::storage {

inline constexpr std::string_view offset_file = "pages.data";

/// What the scan of a store `offset` at a node's start has found in the index, or in the file.
struct offset_scan_result {
  std::vector<record_table::entry> records; ///< The records that were found, sorted by sequence.
  /// Keys that the index should lose: their record is invalid, corrupt or partly overwritten.
  std::vector<page_key> dropped;
  recovery_report report;
  std::uint64_t next_sequence = 1;
};

/// Finds the records of an offset store, in the index or, without one, in the file itself.
class offset_scan {
public:
  offset_scan(const disk_io& io, std::uint64_t blocks, const record_owner& owner,
              const recovery_options& options)
      : io_(io), blocks_(blocks), owner_(owner), options_(options) {}

  /// Reads all records of the index; nothing when the index does not hold all records. Errors: the
  /// index cannot be read.
  result<std::optional<offset_scan_result>> read_index(offset_index& index);
  /// Looks at each block of the file: a block that is a good header is a record, unless a newer
  /// record lies over it. A record that was given up comes back when nothing has overwritten it.
  offset_scan_result read_file();

private:
  struct part {
    std::vector<record_table::entry> records;
    std::vector<page_key> dropped;
    std::uint64_t torn = 0;
    std::uint64_t foreign = 0;
    std::uint64_t last_sequence = 0;
  };
  void take(std::span<const std::byte> raw, const page_key* key, std::uint64_t block, part& into);
  void walk_file(part& into);
  void walk_blocks(std::span<const std::byte> bytes, std::uint64_t first_block, part& into);
  offset_scan_result join(std::vector<part>& parts);
  void drop_overlapped(offset_scan_result& whole) const;
  void drop_replaced(offset_scan_result& whole) const;
  void drop_corrupt(offset_scan_result& whole) const;

  const disk_io& io_;
  const std::uint64_t blocks_;
  const record_owner owner_;
  const recovery_options& options_;
  std::atomic<std::uint64_t> next_piece_{0};
  /// Held while `progress` is called, so that one thread at a time calls it.
  std::mutex progress_mutex_;
  std::uint64_t pieces_done_ = 0;
  std::uint64_t pages_seen_ = 0;
};

} // namespace peercache::storage
