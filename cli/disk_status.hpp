#pragma once

#include "cli/exit_code.hpp"
#include "client/admin_client.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace peercache::cli {

/// A node's disk tier as `peercache disk status` shows it.
nlohmann::json disk_json(const client::node_status& node);
std::string disk_text(const client::node_status& node);

/// `failed` without a disk tier; `degraded` while the tier is being scanned, or has a trouble that
/// lasts.
exit_code disk_exit_code(const client::node_status& node);

/// Follows `peercache disk verify`, in which a node reads its whole tier, by the node's reports. A
/// value.
class verify_progress {
public:
  /// @param before the node's status from before it was asked to read
  explicit verify_progress(const client::node_status& before);

  /// Takes the node's newest report. Call this several times a second, the first time at least
  /// `report_pause_ms` after the beginning. True when the node is done, which two reports in a row
  /// must say, because the first may have been made before the beginning. A report without the
  /// disk tier's part says nothing.
  bool take(const client::node_status& now);

  std::uint64_t read_bytes() const noexcept { return read_bytes_; }
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Pages whose bytes were not what was written; the node has dropped them.
  std::uint64_t failures() const noexcept { return failures_; }
  /// Reads that failed while the tier was verified, including reads for other purposes. Nothing is
  /// known of the pages of these reads.
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

  /// @param wanted_bytes how many bytes are to be free; 0: all pages that are on disk now have to
  /// go, however much of the tier the store keeps for itself
  evict_progress(const client::node_status& before, std::uint64_t wanted_bytes);

  /// @return `stuck` when `wanted_bytes` are not free although none of the earlier pages is left,
  /// or when nothing changes for a while. A report without the disk tier's part changes nothing.
  state take(const client::node_status& now);

  std::uint64_t free_bytes() const noexcept { return free_bytes_; }
  std::uint64_t evicted_pages() const noexcept { return evicted_; }
  std::uint64_t pages_left() const noexcept { return pages_left_; }

  /// Unchanged reports until the disk counts as done, with pauses of `report_pause_ms`: longer than
  /// the directory has to answer an eviction.
  static constexpr int reports_until_free = 8;
  /// Unchanged reports until the eviction counts as stuck: longer than the writing of a file takes,
  /// during which the file cannot be removed.
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
  int with_all_gone_ = 0; ///< Reports without earlier pages since the free room last grew.
};

/// The pause between two questions, in milliseconds; a node makes a report every 100 ms.
inline constexpr int report_pause_ms = 300;

} // namespace peercache::cli
