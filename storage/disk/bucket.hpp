#pragma once

#include "storage/disk/bucket_format.hpp"
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
  record_header record;       ///< When its group has started.
  int error = 0;              ///< Of its own transfer.
  std::uint32_t attempts = 1; ///< Buckets that it was to lie in.
};

/// Pages behind one block of headers, written together.
struct bucket_group {
  std::uint64_t offset_bytes = 0; ///< Of the headers.
  std::uint64_t end_bytes = 0;
  std::vector<bucket_page> pages;
  disk_blocks headers;          ///< Empty: not started, more pages may come.
  std::uint32_t on_its_way = 0; ///< Transfers.
  int error = 0;                ///< Of the headers' transfer, else of any page's.
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
  std::uint64_t end_bytes = 0; ///< Of the groups that there are; the footer follows.

  // while it is written
  std::deque<bucket_group> groups;    ///< Not yet durable, in the order they lie.
  std::vector<record_header> records; ///< Of durable pages: what the footer will say.
  std::uint32_t keys = 0;             ///< Pages of all groups that there were.
  std::size_t groups_syncing = 0;     ///< Covered by the sync on its way.
  bool syncing = false;
  bool unsafe = false; ///< A sync failed: nothing written here after it can be trusted.
  std::optional<disk_clock::time_point> opened;
  std::optional<disk_clock::time_point> waiting_since; ///< Written groups, for a sync.
  disk_blocks footer;

  // while it has pages
  std::vector<page_key> pages; ///< All that ever became durable; those replaced or erased too.
  std::uint64_t live = 0;      ///< Pages that the index knows.
  std::uint32_t users = 0;     ///< Reads on their way, and the writer.
  std::uint64_t used = 0;      ///< When it was last read or made, on the store's own count.
  std::uint64_t ticket = 0;    ///< Of its eviction.
  bool doomed = false;         ///< The file goes when nobody uses it.
};

} // namespace peercache::storage
