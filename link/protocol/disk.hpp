#pragma once

#include "link/protocol/atoms.hpp"
#include "link/protocol/internal.hpp"
#include "link/protocol/reports.hpp"
#include "link/protocol/samples_wire.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace peercache::link {

/// One turn of the disk's thread, reported to the disk's actor, which handles the parts in this
/// order: answers, pages that are gone, pages that are stored.
struct disk_turn {
  /// stored_page records: pages that are durable, some of them for a while already.
  std::string stored;
  struct left {
    std::uint64_t ticket = 0;
    std::string keys;
  };
  std::vector<left> gone;
  struct answer {
    std::uint64_t request = 0;
    std::string records;
    bool is_walk = false;
    std::uint64_t next = 0; ///< Answer to a walk: the place to go on at; 0 at the end.
  };
  std::vector<answer> answers;
  bool scanned = false; ///< The store's scan of the disk at the start is over.

  bool empty() const noexcept {
    return stored.empty() && gone.empty() && answers.empty() && !scanned;
  }
};
using disk_turn_ptr = std::shared_ptr<disk_turn>;

/// The DISK protocol, spoken inside one node; the comment at a message begins with who sends it.
/// Batches are packed records (link/protocol/disk_wire.hpp).
using disk_actor = caf::typed_actor<
    // Pool: write these pages (kept_page). Their slots are unpinned once each write is decided.
    caf::reacts_to<write_atom, std::string, from_here>,
    // Promoter: read these pages into their slots (wanted_page). The slots belong to the disk until
    // the answer, which has a loaded_page for each.
    caf::replies_to<load_atom, std::string, from_here>::with<std::string>,
    // Pool: show this many pages that are on disk, from after this place on (0: from the first
    // one). Answers stored_pages, and the last one's place, or 0 at the end.
    caf::replies_to<walk_atom, std::uint64_t, std::uint32_t, from_here>::with<std::string,
                                                                              std::uint64_t>,
    // Pool: forget these keys. Answers one page_status byte per key.
    caf::replies_to<remove_atom, std::string, from_here>::with<std::string>,
    // Pool: tells the disk to forget pages that are older than the last clear of their space.
    caf::reacts_to<clear_atom, from_here>,
    // Clearing: keep these bytes for the next process (storage/disk/cleared_file.hpp). Answers
    // nothing once they are durable, else the reason why they are not.
    caf::replies_to<clear_atom, std::string, from_here>::with<std::string>,
    // Pool: tells that the directory knows that the pages of this ticket are gone.
    caf::reacts_to<ack_atom, std::uint64_t, from_here>,
    // Gateway: read everything once and compare checksums. Answers when that has begun.
    caf::replies_to<verify_atom, from_here>::with<bool>,
    // Gateway: evict until this many bytes of the tier are free. Answers when that has begun.
    caf::replies_to<evict_atom, std::uint64_t, from_here>::with<bool>,
    // Gateway: asks for the tier's numbers, and for its state that metrics do not show.
    caf::replies_to<stats_atom>::with<metrics::samples, disk_report>,
    // The disk's thread: tells what happened in one turn.
    caf::reacts_to<turn_atom, disk_turn_ptr>,
    // The disk actor, to itself: looks whether the disk's thread hangs.
    caf::reacts_to<beat_atom, from_here>>;

/// The PROMOTER protocol, spoken inside one node; the comment at a message begins with who sends
/// it.
using promoter_actor = caf::typed_actor<
    // Gateway, for clients anywhere: bring these pages (promoted_page) into the pool, within this
    // many milliseconds. Answers like a directory look-up; a page without a location is a miss.
    caf::replies_to<promote_atom, std::string, std::uint32_t, from_here>::with<std::string>,
    // Gateway, for clients anywhere: bring these pages into the pool if there is nothing better to
    // do. Answers nothing, when they are queued or dropped.
    caf::replies_to<warm_atom, std::string, from_here>::with<std::string>,
    // Gateway: asks for the promoter's numbers.
    caf::replies_to<stats_atom>::with<metrics::samples>,
    // The promoter, to itself: ends the requests whose time has passed.
    caf::reacts_to<beat_atom, from_here>>;

} // namespace peercache::link

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::link::disk_turn_ptr)
