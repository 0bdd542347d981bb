#pragma once

#include "storage/disk/bucket/bucket.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <cstdint>
#include <deque>
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

/// The requests of a bucket store. The device gets as many requests as it takes; further requests
/// wait in line, reads before writes.
///
/// Threads: one owner. Invariant: an operation is kept from its `add` until its `take`.
class bucket_requests {
public:
  explicit bucket_requests(disk_io& io) : io_(io) {}

  /// Puts a request in line and sets its tag, by which `take` finds the operation again.
  void add(const bucket_operation& operation, disk_request request);
  /// Submits requests from the line until the device takes no further one.
  void start();
  /// The operation of a completed request. @pre `add` gave out `tag`, and `take` was not called
  /// with this tag since
  bucket_operation take(std::uint64_t tag);

  /// Takes the requests out of the line that were not submitted to the device; returns their tags.
  std::vector<std::uint64_t> cancel();

  std::size_t size() const noexcept { return operations_.size() - free_.size(); }
  std::size_t reads() const noexcept { return reads_on_way_; }

private:
  bool start_all(std::deque<disk_request>& line);

  disk_io& io_;
  std::deque<disk_request> reads_;
  std::deque<disk_request> writes_;
  /// The operation of each tag; its `in` is null when the tag is free.
  std::vector<bucket_operation> operations_;
  std::vector<std::uint32_t> free_;
  std::size_t reads_on_way_ = 0;
};

} // namespace peercache::storage
