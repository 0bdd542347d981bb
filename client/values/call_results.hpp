#pragma once

#include "common/page_status.hpp"
#include "directory/page_location.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::client {

/// What became, since the last flush, of the pages that `set` called `stored`.
struct flush_result {
  std::uint64_t failed = 0; ///< Pages that other hosts do not find.
  std::uint64_t duplicates =
      0; ///< Pages that were in the cluster already; their new copies were dropped.
  /// Pages that lie in this host's pool, where its clients find them, but whose directory owners
  /// could not be told; `failed` counts them too. An owner is told as soon as it answers.
  std::uint64_t unpublished = 0;
};

/// What the directory says of one key.
struct key_locations {
  /// `hit`, `not_found`, or why no owner of the key has answered.
  page_status status = page_status::not_found;
  std::vector<directory::page_location> locations; ///< All known ones; none unless `hit`.
};

/// The outcome of a `clear`.
struct clear_result {
  /// True: after the return no page that was set before the call is a hit, for any client of the
  /// cluster. That holds also when an absent node or disk comes back, if a node that heard of the
  /// clear is in the cluster then.
  bool certain = false;
  std::string why_not; ///< Why the clear is not certain, with the names of the nodes in question.

  explicit operator bool() const noexcept { return certain; }
};

} // namespace peercache::client
