#pragma once

#include "storage/disk/bucket/bucket.hpp"
#include "storage/disk/io/request_line.hpp"

#include <cstdint>
#include <vector>

namespace peercache::storage {

/// What a request of a bucket store is for.
struct bucket_operation {
  enum class kind : std::uint8_t { read, headers, page, sync, footer };
  kind what = kind::read;
  bucket* in = nullptr;
  bucket_group* group = nullptr; ///< In a `headers` or `page` operation: the group that is written.
  std::uint32_t page = 0;        ///< In a `page` operation: the place of the page in its group.
  disk_page wanted;              ///< In a `read` operation: the page that is read.
  std::uint64_t sequence = 0;    ///< In a `read` operation: the sequence of the page's record.
  disk_read read;
};

/// The requests of a bucket store, with what each is for.
///
/// Threads: one owner. Invariant: an operation is kept from its `add` until its `take`.
class bucket_requests {
public:
  explicit bucket_requests(disk_io& io) : line_(io) {}

  /// Puts a request in line and sets its tag, by which `take` finds the operation again.
  void add(const bucket_operation& operation, disk_request request);
  /// The operation of a completed request. @pre `add` gave out `tag`, and `take` was not called
  /// with this tag since
  bucket_operation take(std::uint64_t tag);

  request_line& line() noexcept { return line_; }

  std::size_t size() const noexcept { return operations_.size() - free_.size(); }
  std::size_t reads() const noexcept { return reads_on_way_; }

private:
  request_line line_;
  /// The operation of each tag; its `in` is null when the tag is free.
  std::vector<bucket_operation> operations_;
  std::vector<std::uint32_t> free_;
  std::size_t reads_on_way_ = 0;
};

} // namespace peercache::storage
