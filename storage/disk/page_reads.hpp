#pragma once

#include "storage/disk/disk_store.hpp"
#include "storage/disk/io/request_line.hpp"
#include "storage/disk/record_table.hpp"
#include "storage/disk/slot_list.hpp"

#include <cstdint>

namespace peercache::storage {

/// What a request of a record_store is for; a part of the request's tag.
enum class request_part : std::uint64_t { header, page, sync, folder, read };

constexpr std::uint64_t tag_of(std::uint32_t slot, request_part part) noexcept {
  return (std::uint64_t{slot} << 3) | static_cast<std::uint64_t>(part);
}
constexpr std::uint32_t slot_of(std::uint64_t tag) noexcept {
  return static_cast<std::uint32_t>(tag >> 3);
}
constexpr request_part part_of(std::uint64_t tag) noexcept {
  return static_cast<request_part>(tag & 7);
}

/// A read that has not completed, and the record that is read.
struct read_op {
  disk_read request;
  record_table::entry record;
  disk_file file;
};

/// The reads of a record_store: one transfer each, straight into the caller's memory. The table
/// keeps the record of a read pinned until the read is finished.
/// Threads: one owner.
class page_reads {
public:
  page_reads(request_line& line, record_table& table) : line_(line), table_(table) {}

  void start(const read_op& read, std::uint64_t offset_bytes);
  /// Ends the read whose request has completed and unpins its record.
  read_op finish(std::uint32_t slot);

  std::size_t size() const noexcept { return reads_.size(); }
  bool empty() const noexcept { return reads_.empty(); }

private:
  request_line& line_;
  record_table& table_;
  slot_list<read_op> reads_;
};

} // namespace peercache::storage
