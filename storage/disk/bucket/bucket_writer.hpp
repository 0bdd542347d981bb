#pragma once

#include "storage/disk/bucket/bucket.hpp"
#include "storage/disk/bucket/bucket_files.hpp"
#include "storage/disk/bucket/bucket_requests.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace peercache::storage {

/// The outcome of a page that was to be written.
struct written_page {
  disk_write write;
  record_header record; ///< The page's header, if it is `ok`.
  bucket* in = nullptr; ///< If `ok`.
  disk_status status = disk_status::ok;
};

/// Fills buckets: pages become groups, groups become durable in the order in which they lie, full
/// or old buckets get their footer. Groups are written while others are made durable, also in the
/// next bucket. Failed writes are not trusted again. After a failed transfer a bucket takes no more
/// pages; pages behind the failed group are written once more, elsewhere, because a scan would not
/// get past it. After a failed sync every page that it covered has failed.
///
/// Threads: one owner. Time comes as an argument.
/// Invariant: a page is `ok` only when its group, all groups before it and the file's name are
/// durable.
class bucket_writer {
public:
  bucket_writer(bucket_files& files, bucket_requests& requests, const disk_store_options& options);

  void continue_after(std::uint64_t sequence) noexcept;

  /// Whether no more pages may come until one has an outcome.
  bool full() const noexcept { return pages_on_way_ >= pages_max; }
  /// `ok`: it is on its way; otherwise why not. @pre !full()
  disk_status write(const disk_write& page);

  /// @pre the operation is not a read
  void on_done(const bucket_operation& operation, int error);
  void poll(disk_clock::time_point now, std::uint64_t unix_s);
  disk_clock::time_point next_due() const;

  /// From now on everything is due, and the open bucket is sealed.
  void seal_all();
  /// Pages that are not durable are refused; nothing is started any more. @pre no transfer is on
  /// its way
  void give_up();
  bool idle() const noexcept { return writing_.empty() && again_.empty(); }

  /// Outcomes since the last call.
  std::vector<written_page> take_written();
  /// Buckets that are done since the last call, and no longer used by the writer when it returns.
  std::vector<bucket*> take_done();
  std::uint64_t syncs() const noexcept { return syncs_; }

  static constexpr std::uint32_t pages_max = 4096;
  static constexpr std::uint64_t group_bytes_max = 4u << 20;
  /// When so many bytes are written they are made durable, however young they are.
  static constexpr std::uint64_t sync_bytes = 16u << 20;
  static constexpr std::uint32_t sync_pages = 1024;
  /// In how many buckets a page may fail because of other pages.
  static constexpr std::uint32_t attempts_max = 3;

private:
  std::uint64_t file_bytes_max() const noexcept;
  disk_status place(const bucket_page& page);
  /// The group that a page of so many bytes may join; null: it needs a group of its own.
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
  std::uint64_t file_bytes_; ///< The size of the next bucket's file.
  disk_clock::time_point now_{};
  std::uint64_t unix_s_ = 0;
  std::uint64_t next_sequence_ = 1;
  bool hurry_ = false;
  bool given_up_ = false;
  bucket* open_ = nullptr;
  std::vector<bucket*> writing_;   ///< Buckets that are not done, the open one included.
  std::deque<bucket_page> again_;  ///< Pages that need another bucket.
  std::vector<disk_blocks> spare_; ///< Blocks for headers.
  std::uint32_t pages_on_way_ = 0;
  std::uint64_t syncs_ = 0;
  std::vector<written_page> written_;
  std::vector<bucket*> done_;
};

} // namespace peercache::storage
