#pragma once

#include "storage/disk/bucket/bucket.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace peercache::storage {

/// The purpose of a transfer.
struct bucket_operation {
  enum class kind : std::uint8_t { read, headers, page, sync, footer };
  kind what = kind::read;
  bucket* in = nullptr;
  bucket_group* group = nullptr; ///< With `headers` and `page`: the group written.
  std::uint32_t page = 0;        ///< With `page`: its place in the group.
  disk_page wanted;              ///< With `read`: the page to be read.
  std::uint64_t sequence = 0;    ///< With `read`: the sequence of the record that was wanted.
  disk_read read;
};

/// The transfers of a bucket store: as many on the device as it takes, the others in line, reads
/// before writes.
///
/// Threads: one owner. Invariant: an operation is there from `add` until its `take`.
class bucket_requests {
public:
  explicit bucket_requests(disk_io& io) : io_(io) {}

  /// The request's tag is ours.
  void add(const bucket_operation& operation, disk_request request);
  /// Hands the device what it takes.
  void start();
  /// The purpose of a completed transfer. @pre `tag` was given by `add` and not taken yet
  bucket_operation take(std::uint64_t tag);

  /// Takes those out of the line that the device has not seen; their tags.
  std::vector<std::uint64_t> cancel();

  std::size_t size() const noexcept { return operations_.size() - free_.size(); }
  std::size_t reads() const noexcept { return reads_on_way_; }

private:
  bool start_all(std::deque<disk_request>& line);

  disk_io& io_;
  std::deque<disk_request> reads_;
  std::deque<disk_request> writes_;
  std::vector<bucket_operation> operations_; ///< By tag.
  std::vector<std::uint32_t> free_;
  std::size_t reads_on_way_ = 0;
};

} // namespace peercache::storage
