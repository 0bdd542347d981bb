#include "actors/disk_incidents.hpp"

#include "common/assert.hpp"

#include <fmt/format.h>
#include <system_error>
#include <utility>

namespace peercache::actors {

std::vector<disk_incidents::line>
disk_incidents::look(time_point now, const storage::disk_tier_stats& stats, int last_error) {
  // Totals of the tier's whole life.
  PEERCACHE_ASSERT(stats.checksum_failures >= rotten_told_ &&
                   stats.no_space_errors >= no_space_told_);
  look_at_failures(stats, last_error);
  look_at_room(stats);
  look_at_checksums(now, stats);
  look_at_pace(now, stats);
  return std::exchange(lines_, {});
}

void disk_incidents::look_at_failures(const storage::disk_tier_stats& stats, int last_error) {
  const bool fails = stats.breaker != circuit_breaker::state::closed;
  if (fails == fails_)
    return;
  fails_ = fails;
  if (fails)
    begins(fmt::format("{} fails again and again ({} writes and {} reads have failed; last error: "
                       "{}): it is left alone but for a try now and then; pages stay in memory. "
                       "Look at `dmesg` and `peercache doctor`",
                       path_, stats.write_errors, stats.read_errors,
                       last_error == 0 ? "the file system refuses"
                                       : std::generic_category().message(last_error)));
  else
    ends(fmt::format("{} works again", path_));
}

/// Finds when the device is full and when it has room again. A full device is tried again twice a
/// second; it has room when a write has succeeded. The error count is compared too, because the
/// device may have been full only between two calls.
void disk_incidents::look_at_room(const storage::disk_tier_stats& stats) {
  if (stats.read_only || stats.no_space_errors != no_space_told_) {
    no_space_told_ = stats.no_space_errors;
    writes_when_full_ = stats.writes;
    if (!std::exchange(full_, true))
      begins(fmt::format("the file system of {} is full before the tier is: nothing is written "
                         "until there is room; pages on it are still served. Make room, or set "
                         "disk.size lower",
                         path_));
  } else if (full_ && stats.writes > writes_when_full_) {
    full_ = false;
    ends(fmt::format("{} has room again", path_));
  }
}

void disk_incidents::look_at_checksums(time_point now, const storage::disk_tier_stats& stats) {
  if (stats.checksum_failures <= rotten_told_ || now < rot_next_)
    return;
  begins(fmt::format("{} gave back other bytes than were written: {} pages since the last word, {} "
                     "since the start; they are misses and are dropped. Read all with `peercache "
                     "disk verify`, and doubt the device",
                     path_, stats.checksum_failures - rotten_told_, stats.checksum_failures));
  rotten_told_ = stats.checksum_failures;
  rot_next_ = now + rot_pause;
}

void disk_incidents::look_at_pace(time_point now, const storage::disk_tier_stats& stats) {
  const auto ended = stats.writes + stats.write_errors;
  const bool waits = stats.queue_pages != 0 && !fails_ && !full_;
  if (ended != ended_ || !waits || ended_at_ == time_point{}) {
    ended_ = ended;
    ended_at_ = now;
    if (std::exchange(hangs_, false))
      ends(fmt::format("{} takes writes again", path_));
  } else if (!hangs_ && now - ended_at_ >= hangs_after) {
    hangs_ = true;
    begins(fmt::format("{} hangs: {} pages wait, and no write has ended for {} s. Look at `dmesg` "
                       "and at what else uses the device",
                       path_, stats.queue_pages, hangs_after.count()));
  }
}

} // namespace peercache::actors
