#include "actors/disk/disk_incidents.hpp"

#include "common/assert.hpp"
#include "common/fault_ids.hpp"

#include <fmt/format.h>
#include <system_error>
#include <utility>

namespace peercache::actors {
namespace {

using incident_kind = disk_incidents::kind;

const char* incident_id(incident_kind which) {
  switch (which) {
  case incident_kind::failing:
    return fault_ids::disk_failing;
  case incident_kind::full:
    return fault_ids::disk_full;
  case incident_kind::hung:
    return fault_ids::disk_hung;
  case incident_kind::slow:
    return fault_ids::disk_slow;
  case incident_kind::rotten:
    return fault_ids::disk_rotten;
  case incident_kind::off:
    return fault_ids::disk_off;
  case incident_kind::other_store:
    break;
  }
  return fault_ids::disk_other_store;
}

} // namespace

const char* to_string(disk_incidents::kind which) noexcept {
  switch (which) {
  case incident_kind::failing:
    return "failing";
  case incident_kind::full:
    return "full";
  case incident_kind::hung:
    return "hung";
  case incident_kind::slow:
    return "slow";
  case incident_kind::rotten:
    return "rotten";
  case incident_kind::off:
    return "off";
  case incident_kind::other_store:
    break;
  }
  return "other_store";
}

std::vector<disk_incidents::line> disk_incidents::look(time_point now, const disk_look& seen) {
  // The two totals that are compared count from the tier's start and never fall.
  PEERCACHE_ASSERT(seen.stats.checksum_failures >= rotten_told_ &&
                   seen.stats.no_space_errors >= no_space_told_);
  look_at_failures(seen);
  look_at_room(seen);
  look_at_checksums(now, seen);
  look_at_pace(now, seen);
  look_at_slowness(now, seen);
  return std::exchange(lines_, {});
}

void disk_incidents::look_at_failures(const disk_look& seen) {
  const auto& stats = seen.stats;
  const bool fails = stats.breaker != circuit_breaker::state::closed;
  if (fails == is_on(kind::failing))
    return;
  if (fails)
    begins(kind::failing,
           fmt::format("{} fails again and again ({} writes and {} reads have failed; last error: "
                       "{}): it is left alone but for a try now and then; pages stay in memory. "
                       "Look at `dmesg` and `peercache doctor`",
                       path_, stats.write_errors, stats.read_errors,
                       seen.last_error == 0 ? "the file system refuses"
                                            : std::generic_category().message(seen.last_error)),
           seen.unix_ms);
  else
    ends(kind::failing, fmt::format("{} works again", path_));
}

/// Finds when the device is full and when it has room again. A full device is tried again twice a
/// second; it has room when a write has succeeded. The error count is compared too, because the
/// device may have been full only between two calls.
void disk_incidents::look_at_room(const disk_look& seen) {
  const auto& stats = seen.stats;
  if (stats.full || stats.no_space_errors != no_space_told_) {
    no_space_told_ = stats.no_space_errors;
    writes_when_full_ = stats.writes;
    if (!is_on(kind::full))
      begins(kind::full,
             fmt::format("the file system of {} is full before the tier is: nothing is written "
                         "until there is room; pages on it are still served. Make room, or set "
                         "disk.size lower",
                         path_),
             seen.unix_ms);
  } else if (is_on(kind::full) && stats.writes > writes_when_full_) {
    ends(kind::full, fmt::format("{} has room again", path_));
  }
}

/// Finds that the device gave back wrong bytes. The incident lasts until an operator has had the
/// whole tier read and all pages were whole.
void disk_incidents::look_at_checksums(time_point now, const disk_look& seen) {
  const auto failures = seen.stats.checksum_failures;
  if (seen.verifying && !verifying_)
    rotten_before_verify_ = failures;
  const bool was_verified = verifying_ && !seen.verifying && failures == rotten_before_verify_;
  verifying_ = seen.verifying;
  if (was_verified && is_on(kind::rotten) && failures == rotten_told_)
    ends(kind::rotten, fmt::format("all of {} was read and found whole", path_));
  if (failures <= rotten_told_ || now < rot_next_)
    return;
  begins(kind::rotten,
         fmt::format("{} gave back other bytes than were written: {} pages since the last word, {} "
                     "since the start; they are misses and are dropped. Read all with `peercache "
                     "disk verify`, and doubt the device",
                     path_, failures - rotten_told_, failures),
         seen.unix_ms);
  rotten_told_ = failures;
  rot_next_ = now + rot_pause;
}

void disk_incidents::look_at_pace(time_point now, const disk_look& seen) {
  const auto& stats = seen.stats;
  const auto ended = stats.writes + stats.write_errors;
  const bool waits = stats.queue_pages != 0 && !is_on(kind::failing) && !is_on(kind::full);
  if (ended != ended_ || !waits || ended_at_ == time_point{}) {
    ended_ = ended;
    ended_at_ = now;
    if (std::exchange(queue_hangs_, false) && !thread_hangs_)
      ends(kind::hung, fmt::format("{} takes writes again", path_));
  } else if (!queue_hangs_ && now - ended_at_ >= hangs_after) {
    queue_hangs_ = true;
    begins(kind::hung,
           fmt::format("{} hangs: {} pages wait, and no write has ended for {} s. Look at `dmesg` "
                       "and at what else uses the device",
                       path_, stats.queue_pages, hangs_after.count()),
           seen.unix_ms);
  }
}

void disk_incidents::look_at_slowness(time_point now, const disk_look& seen) {
  if (seen.slowest >= slow_after) {
    slow_at_ = now;
    if (!is_on(kind::slow))
      begins(kind::slow,
             fmt::format("{} is slow: a page took {:.1f} s. Readers have given up by then; look at "
                         "what else uses the device (`iostat -x`), or take a faster one",
                         path_, std::chrono::duration<double>(seen.slowest).count()),
             seen.unix_ms);
  } else if (is_on(kind::slow) && now - slow_at_ >= slow_for) {
    ends(kind::slow, fmt::format("{} is fast again", path_));
  }
}

std::vector<disk_incidents::line> disk_incidents::look_at_thread(time_point now, time_point turn_at,
                                                                 std::uint64_t unix_ms) {
  const auto since_watch = now - std::exchange(watched_at_, now);
  const bool hangs = now - turn_at >= hangs_after;
  if (hangs && !thread_hangs_ && since_watch <= watch_pause) {
    thread_hangs_ = true;
    begins(
        kind::hung,
        fmt::format("{} hangs: a call to the file system has not come back for {} s, and nothing "
                    "is read or written meanwhile. Look at `dmesg`, and whether the file system "
                    "is frozen or its server is gone",
                    path_, hangs_after.count()),
        unix_ms);
  } else if (!hangs && std::exchange(thread_hangs_, false) && !queue_hangs_) {
    ends(kind::hung, fmt::format("{} answers again", path_));
  }
  return std::exchange(lines_, {});
}

void disk_incidents::is_off(const std::string& why, std::uint64_t unix_ms) {
  begins(kind::off,
         fmt::format("its disk tier is off though disk.path is set: {}; what is there is missed, "
                     "and clears may not be certain. Mend that and start the node again, or take "
                     "disk.path out",
                     why),
         unix_ms);
  lines_.clear(); // The caller writes its own log line.
}

void disk_incidents::has_other_files(const std::string& what, std::uint64_t unix_ms) {
  begins(kind::other_store,
         fmt::format("{} has {}, which disk.store does not read: they take room that is not "
                     "counted, and their pages are missed. Set disk.store back, or remove them",
                     path_, what),
         unix_ms);
  lines_.clear(); // The caller writes its own log line.
}

std::vector<link::node_fault> disk_incidents::open() const {
  std::vector<link::node_fault> faults;
  for (std::size_t i = 0; i < kinds; ++i)
    if (all_[i].on)
      faults.emplace_back(incident_id(static_cast<kind>(i)), all_[i].text, "", all_[i].since_ms);
  return faults;
}

void disk_incidents::add_numbers(metrics::samples& to) const {
  for (std::size_t i = 0; i < kinds; ++i)
    to.set(metrics::metric::disk_incident, {to_string(static_cast<kind>(i))}, all_[i].on ? 1 : 0);
}

void disk_incidents::begins(kind which, std::string text, std::uint64_t unix_ms) {
  auto& one = of(which);
  if (!std::exchange(one.on, true))
    one.since_ms = unix_ms;
  one.text = text;
  lines_.push_back({false, std::move(text)});
}

void disk_incidents::ends(kind which, std::string text) {
  of(which).on = false;
  lines_.push_back({true, std::move(text)});
}

} // namespace peercache::actors
