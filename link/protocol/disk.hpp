#pragma once

#include "link/protocol/atoms.hpp"
#include "link/protocol/reports.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace peercache::link {

/// What the disk's thread has to tell its actor, of one turn: first what it answers, then what is
/// gone, then what is stored.
struct disk_turn {
  std::string stored; ///< stored_page records: durable from here on, or before.
  struct left {
    std::uint64_t ticket = 0;
    std::string keys;
  };
  std::vector<left> gone;
  struct answer {
    std::uint64_t request = 0;
    std::string records;
    bool is_walk = false;
    std::uint64_t next = 0; ///< Of a walk.
  };
  std::vector<answer> answers;
  bool scanned = false; ///< The start's scan is over.

  bool empty() const noexcept {
    return stored.empty() && gone.empty() && answers.empty() && !scanned;
  }
};
using disk_turn_ptr = std::shared_ptr<disk_turn>;

/// The DISK protocol, spoken inside one node. Batches are packed records
/// (link/protocol/disk_wire.hpp).
using disk_actor = caf::typed_actor<
    // Pool: keep these pages (kept_page). Their slots are unpinned once that is decided.
    caf::reacts_to<write_atom, std::string>,
    // Promoter: read these pages into their slots (wanted_page), which are the disk's until the
    // answer: a loaded_page each.
    caf::replies_to<load_atom, std::string>::with<std::string>,
    // Pool: so many pages that are on disk, from behind this place on (0: from the first one).
    // Answers stored_pages with generation 0, and the last one's place, or 0 at the end.
    caf::replies_to<walk_atom, std::uint64_t, std::uint32_t>::with<std::string, std::uint64_t>,
    // Pool: forget these keys. Answers one page_status byte a key.
    caf::replies_to<remove_atom, std::string>::with<std::string>,
    // Pool: forget the pages of spaces that were cleared since they were set.
    caf::reacts_to<clear_atom>,
    // Clearing: keep these bytes for the next process (storage/disk/cleared_file.hpp). Answers why
    // that did not work, or nothing once they are durable.
    caf::replies_to<clear_atom, std::string>::with<std::string>,
    // Pool: the directory knows that the pages of this ticket are gone.
    caf::reacts_to<ack_atom, std::uint64_t>,
    // Gateway: read everything once and compare checksums. Answers when it has begun.
    caf::replies_to<verify_atom>::with<bool>,
    // Gateway: evict until so many bytes of the tier are free. Answers when it has begun.
    caf::replies_to<evict_atom, std::uint64_t>::with<bool>,
    // Gateway and metrics.
    caf::replies_to<stats_atom>::with<disk_report>,
    // The disk's thread: what has happened there.
    caf::reacts_to<turn_atom, disk_turn_ptr>>;

/// The PROMOTER protocol.
using promoter_actor = caf::typed_actor<
    // Gateway, for clients anywhere: bring these pages (promoted_page) into the pool, within so
    // many milliseconds. Answers where they are, as a directory look-up does: no location is a
    // miss.
    caf::replies_to<promote_atom, std::string, std::uint32_t>::with<std::string>,
    // Gateway, for clients anywhere: the same, if there is nothing better to do.
    caf::reacts_to<warm_atom, std::string>,
    // Gateway and metrics.
    caf::replies_to<stats_atom>::with<promote_report>,
    // Itself: the time of this request is over.
    caf::reacts_to<beat_atom, std::uint64_t>>;

} // namespace peercache::link

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::link::disk_turn_ptr)
