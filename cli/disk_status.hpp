#pragma once

#include "cli/exit_code.hpp"
#include "link/protocol/reports.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace peercache::cli {

/// A node's disk tier as `peercache disk status` shows it.
nlohmann::json to_json(const link::disk_report& disk);
nlohmann::json to_json(const link::promote_report& promotes);
std::string to_text(const link::disk_report& disk, const link::promote_report& promotes);

/// `failed` without a disk tier; `degraded` while it is being scanned, the device is full, or it is
/// left alone because it failed.
exit_code exit_code_of(const link::disk_report& disk) noexcept;

/// Follows a node that reads its whole tier (`peercache disk verify`), by the reports that it makes
/// meanwhile. A value.
class verify_progress {
public:
  /// @param before Made before it began.
  explicit verify_progress(const link::disk_report& before);

  /// Reports come several times a second, the first one at least `report_pause_ms` after the
  /// beginning. True when the node is done: two reports in a row say so, for the first one may be
  /// older than the beginning.
  bool take(const link::disk_report& now);

  std::uint64_t read_bytes() const noexcept { return read_bytes_; }
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Pages whose bytes were not what was written, and that are gone now.
  std::uint64_t failures() const noexcept { return failures_; }
  /// Reads that failed meanwhile, those of others included: of these pages nothing is known.
  std::uint64_t unread() const noexcept { return unread_; }

private:
  std::uint64_t scrubbed_before_;
  std::uint64_t failures_before_;
  std::uint64_t unread_before_;
  std::uint64_t total_bytes_;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t unread_ = 0;
  int quiet_reports_ = 0;
};

/// Follows a node that evicts (`peercache disk evict`). A value.
class evict_progress {
public:
  enum class state : std::uint8_t { going_on, reached, stuck };

  /// @param wanted_bytes That are to be free. 0: the pages that are there now are to go, however
  /// much of the tier the store keeps for itself.
  evict_progress(const link::disk_report& before, std::uint64_t wanted_bytes);

  /// @return `stuck` when so much is not free though no page is left of those that were there
  /// before, or when nothing changes any more.
  state take(const link::disk_report& now);

  std::uint64_t free_bytes() const noexcept { return free_bytes_; }
  std::uint64_t evicted_pages() const noexcept { return evicted_; }
  std::uint64_t pages_left() const noexcept { return pages_left_; }

  /// Unchanged reports until the disk counts as done, with pauses of `report_pause_ms`: longer than
  /// the directory has to answer an eviction.
  static constexpr int reports_until_free = 8;
  /// Unchanged reports until it counts as stuck: longer than a file may be written, which cannot go
  /// meanwhile.
  static constexpr int reports_until_stuck = 45;

private:
  std::uint64_t wanted_bytes_;
  std::uint64_t pages_before_;
  std::uint64_t evicted_before_;
  std::uint64_t free_bytes_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint64_t pages_left_ = 0;
  int unchanged_ = 0;
  std::uint64_t most_free_bytes_ = 0;
  int with_all_gone_ = 0; ///< Reports that say so since room was found last.
};

/// Between two questions; a node makes a report every 100 ms.
inline constexpr int report_pause_ms = 300;

} // namespace peercache::cli
