#pragma once

#include "storage/disk/bucket/bucket_format.hpp"
#include "storage/disk/disk_store.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace peercache::storage {

/// A page on its way into a bucket.
struct bucket_page {
  disk_write write;
  std::uint64_t sequence = 0;
  record_header record; ///< The page's record header, filled in when its group starts.
  int error = 0;        ///< The errno of the page's own transfer; 0: that transfer has not failed.
  std::uint32_t attempts = 1; ///< Number of buckets in which the page has been tried so far.
};

/// Pages behind one block of headers, written together.
struct bucket_group {
  std::uint64_t offset_bytes = 0; ///< Where the block of headers lies in the file.
  std::uint64_t end_bytes = 0;
  std::vector<bucket_page> pages;
  /// The block of headers. Empty: the group is not started, more pages may join it.
  disk_blocks headers;
  std::uint32_t on_its_way = 0; ///< Transfers of the group that the device has not completed.
  int error = 0; ///< The errno of a transfer of the group that failed; 0: none failed.
  bool headers_failed = false;

  bool started() const noexcept { return headers != nullptr; }
  bool written() const noexcept { return started() && on_its_way == 0 && error == 0; }
};

/// One file of a bucket store, as it is known in memory. Its phases:
///
///   open     groups are added
///   closing  no group is added; the last groups become durable
///   footer   the footer is being written and made durable
///   done     all writing has ended, sealed or not
struct bucket {
  enum class phase : std::uint8_t { open, closing, footer, done };

  std::uint64_t id = 0;
  phase at = phase::done;
  disk_file file; ///< The open file; empty while the file is closed. A read opens it again.
  std::uint64_t file_bytes = 0;
  std::uint64_t end_bytes = 0; ///< Where the last group ends; the footer follows.

  // Members that are used while the bucket is written.
  /// Groups that are not durable yet, in the order in which they lie in the file.
  std::deque<bucket_group> groups;
  std::vector<record_header> records; ///< Headers of durable pages: the footer's content.
  std::uint32_t keys = 0; ///< Number of pages ever placed in the bucket, failed pages included.
  std::size_t groups_syncing = 0; ///< How many groups the running sync makes durable.
  bool syncing = false;
  bool unsafe = false; ///< A sync of the file failed: no later write to this bucket can be trusted.
  std::optional<disk_clock::time_point> opened;
  /// When the first written group began to wait for a sync; none: no written group waits.
  std::optional<disk_clock::time_point> waiting_since;
  disk_blocks footer;

  // Members that are used as long as the bucket has pages.
  /// Keys of all pages that ever became durable here, replaced and erased pages included.
  std::vector<page_key> pages;
  std::uint64_t live = 0; ///< Number of this bucket's pages that the index still names.
  /// Number of reads that are not done, plus one while the bucket is written.
  std::uint32_t users = 0;
  /// Value of the store's counter of uses at the last read from the bucket or insert into it.
  std::uint64_t used = 0;
  /// The ticket of the eviction that takes this bucket; 0: the bucket is not being evicted.
  std::uint64_t ticket = 0;
  bool doomed = false; ///< The bucket's file is removed as soon as `users` is 0.

  /// Whether a write or sync of groups has failed. No group is started then: a scan would not get
  /// past the failed groups.
  bool failed() const noexcept {
    return unsafe || std::any_of(groups.begin(), groups.end(),
                                 [](const bucket_group& group) { return group.error != 0; });
  }
};

} // namespace peercache::storage
