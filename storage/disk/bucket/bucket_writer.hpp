#pragma once

#include "storage/disk/bucket/bucket.hpp"
#include "storage/disk/bucket/bucket_files.hpp"
#include "storage/disk/bucket/bucket_requests.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace peercache::storage {

/// How the write of a page has ended.
struct written_page {
  disk_write write;
  record_header record; ///< The page's record header, when `status` is `ok`.
  bucket* in = nullptr; ///< The bucket that holds the page, when `status` is `ok`.
  disk_status status = disk_status::ok;
};

/// Fills buckets: pages become groups, groups become durable in the order in which they lie in the
/// file, full or old buckets get their footer. A group may be written while earlier groups are made
/// durable, even those of the previous bucket. After a failed transfer a bucket takes no more
/// pages; pages behind the failed group are written once more, in another bucket, because a scan
/// would not get past the failed group. After a failed sync every page that the sync covered has
/// failed, and the bucket takes no more pages.
///
/// Threads: one owner. Time comes as an argument.
/// Invariant: a page's status is `ok` only when its group, all groups before it and the name of the
/// bucket's file are durable.
class bucket_writer {
public:
  bucket_writer(bucket_files& files, bucket_requests& requests, const disk_store_options& options);

  void continue_after(std::uint64_t sequence) noexcept;

  /// Whether `write` may not be called until a page that was handed in has an outcome.
  bool full() const noexcept { return pages_on_way_ >= pages_max; }
  /// Takes a page to write. `ok`: the page's outcome will be in `take_written`; any other status
  /// says why the page was not taken. @pre !full()
  disk_status write(const disk_write& page);

  /// Takes the outcome of a request: 0, or the errno why it failed. @pre the operation is a
  /// transfer or sync of the writer, not a read
  void on_done(const bucket_operation& operation, int error);
  void poll(disk_clock::time_point now, std::uint64_t unix_s);
  disk_clock::time_point next_due() const;

  /// Makes the writer wait for nothing from here on: written groups are synced at once, and the
  /// open bucket is sealed at the next poll.
  void seal_all();
  /// Ends the writes of all pages that are not durable as `refused`, or with the error of their
  /// transfer, and starts nothing from then on. @pre no transfer is on its way
  void give_up();
  bool idle() const noexcept { return writing_.empty() && again_.empty(); }

  /// The outcomes of the pages whose writes have ended since the last call.
  std::vector<written_page> take_written();
  /// The buckets whose writing has ended since the last call; the writer no longer uses these
  /// buckets.
  std::vector<bucket*> take_done();
  std::uint64_t syncs() const noexcept { return syncs_; }

  static constexpr std::uint32_t pages_max = 4096;
  static constexpr std::uint64_t group_bytes_max = 4u << 20;
  /// A sync starts without waiting for more pages when the written groups have `sync_bytes`, or
  /// `sync_pages` pages.
  static constexpr std::uint64_t sync_bytes = 16u << 20;
  static constexpr std::uint32_t sync_pages = 1024;
  /// Most buckets that a page is written into, one after the other, when its write fails because of
  /// other pages of the same bucket.
  static constexpr std::uint32_t attempts_max = 3;

private:
  std::uint64_t file_bytes_max() const noexcept;
  disk_status place(const bucket_page& page);
  /// The group of the bucket that a page of this many bytes may join; null: the page needs a new
  /// group.
  static bucket_group* group_for(bucket& in, std::uint64_t page_bytes);
  disk_status open_bucket(std::uint64_t page_blocks_bytes);
  void close_open_bucket();
  void start(bucket& in, bucket_group& group);
  void request(bucket& in, bucket_group& group, bucket_operation::kind what, std::uint32_t page);

  void advance(bucket& in);
  void drop_failed(bucket& in);
  void sync_written(bucket& in);
  void on_synced(bucket& in, int error);
  void seal(bucket& in);
  void on_footer(bucket& in, int error);
  void sync(bucket& in);
  void finish(bucket& in);

  void keep(bucket& in, bucket_group& group);
  void fail(bucket_page& page, disk_status status);
  void fail_or_retry(bucket_group& group);

  bucket_files& files_;
  bucket_requests& requests_;
  const disk_store_options options_;
  std::uint64_t file_bytes_; ///< The size in bytes of the next bucket's file.
  disk_clock::time_point now_{};
  std::uint64_t unix_s_ = 0;
  std::uint64_t next_sequence_ = 1;
  bool hurry_ = false;
  bool given_up_ = false;
  bucket* open_ = nullptr;
  std::vector<bucket*> writing_;   ///< Buckets whose writing has not ended, the open one included.
  std::deque<bucket_page> again_;  ///< Pages that have to be written into another bucket.
  std::vector<disk_blocks> spare_; ///< Blocks for headers that no group uses.
  std::uint32_t pages_on_way_ = 0;
  std::uint64_t syncs_ = 0;
  std::vector<written_page> written_;
  std::vector<bucket*> done_;
};

} // namespace peercache::storage
