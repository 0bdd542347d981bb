#pragma once

#include "storage/disk/bucket/bucket_format.hpp"
#include "storage/disk/disk_store.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace peercache::storage {

/// A page on its way into a bucket.
struct bucket_page {
  disk_write write;
  std::uint64_t sequence = 0;
  record_header record;       ///< Filled in when the page's group has started.
  int error = 0;              ///< The error of the page's own transfer, or 0.
  std::uint32_t attempts = 1; ///< Buckets that it was to lie in.
};

/// Pages behind one block of headers, written together.
struct bucket_group {
  std::uint64_t offset_bytes = 0; ///< Where the headers lie.
  std::uint64_t end_bytes = 0;
  std::vector<bucket_page> pages;
  disk_blocks headers;          ///< Empty: not started, more pages may come.
  std::uint32_t on_its_way = 0; ///< Transfers.
  int error = 0;                ///< The headers' error, else some page's, or 0.
  bool headers_failed = false;

  bool started() const noexcept { return headers != nullptr; }
  bool written() const noexcept { return started() && on_its_way == 0 && error == 0; }
};

/// One file of the store, as it is known in memory.
///
///   open     groups are added
///   closing  no group is added; the last ones become durable
///   footer   the footer is being written and made durable
///   done     nothing is written any more, sealed or not
struct bucket {
  enum class phase : std::uint8_t { open, closing, footer, done };

  std::uint64_t id = 0;
  phase at = phase::done;
  disk_file file; ///< None: closed, until somebody reads.
  std::uint64_t file_bytes = 0;
  std::uint64_t end_bytes = 0; ///< Where the last group ends; the footer follows.

  // while it is written
  std::deque<bucket_group> groups;    ///< Groups not yet durable, in the order they lie.
  std::vector<record_header> records; ///< Headers of durable pages: the footer's content.
  std::uint32_t keys = 0;             ///< Pages of all groups that there were.
  std::size_t groups_syncing = 0;     ///< Groups that the sync on its way covers.
  bool syncing = false;
  bool unsafe = false; ///< A sync failed: nothing written here after it can be trusted.
  std::optional<disk_clock::time_point> opened;
  /// Since when written groups wait for a sync.
  std::optional<disk_clock::time_point> waiting_since;
  disk_blocks footer;

  // while it has pages
  std::vector<page_key> pages; ///< All keys that ever became durable, replaced and erased ones too.
  std::uint64_t live = 0;      ///< Pages that the index knows.
  std::uint32_t users = 0;     ///< Reads on their way, and the writer.
  std::uint64_t used = 0;      ///< The store's own count at the last read, or when it was made.
  std::uint64_t ticket = 0;    ///< The ticket of its eviction; 0: it is not being evicted.
  bool doomed = false;         ///< The file goes when nobody uses it.
};

} // namespace peercache::storage
