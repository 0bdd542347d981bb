#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "directory/record_repair.hpp"
#include "directory/unpublished_pages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace peercache::directory {

/// Settings of a publisher, chosen by the pool's actor.
struct publisher_options {
  node_id self;
  incarnation inc;
  std::uint32_t replicas = limits::directory_replicas_default;
  /// Longest wait for one directory owner's answer. A `put` waits for a quarter of it.
  std::chrono::milliseconds directory_timeout{1000};
  /// Records a second that are published because their keys have new owners; 0: no limit.
  std::uint64_t republish_rate = 0;
  /// Bytes of the pool that copies of other hosts' pages may take.
  std::uint64_t mirrored_bytes_max = 0;
  bool has_disk = false;
  bool write_through = false; ///< Pages are written to disk as soon as they are put.
  /// Options of the comparison with the directory; the publisher's constructor fills in the node's
  /// identity.
  record_repair::options repair;

  std::size_t withdrawals_max = 1u << 18;
  std::size_t disk_records_max = 1u << 18;
  std::size_t chunk_pages = unpublished_pages::chunk_pages; ///< Pages of one message to an owner.
  /// Pages of the disk that one step of a walk looks at: at most half of `disk_records_max`.
  std::uint32_t walk_pages = 1024;
  /// Granules of the pool that one step of the comparison with the directory looks at.
  std::uint32_t repair_granules = 16'384;
};

struct publisher_totals {
  std::uint64_t republished = 0; ///< Records sent to new owners.
  std::uint64_t mirrored = 0;
  std::uint64_t mirrored_refused = 0;
  std::uint64_t withdrawals_dropped = 0;
};

} // namespace peercache::directory
