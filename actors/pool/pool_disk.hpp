#pragma once

#include "actors/disk/disk_service.hpp"
#include "actors/link_names.hpp"
#include "actors/pool/disk_catch_up.hpp"
#include "directory/disk_marks.hpp"
#include "link/protocol/disk.hpp"
#include "link/protocol/pool.hpp"
#include "storage/page_pool.hpp"
#include "storage/slot_table.hpp"

#include <string>
#include <vector>

// The pool actor's half of the conversation with the disk tier.
namespace peercache::actors {

struct pool_disk_options {
  disk_gate* gate = nullptr; ///< Null: there is no disk tier.
  storage::slot_table slots;
  bool write_through = false; ///< Pages are written after a set; otherwise only before an eviction.
};

/// Takes pages from the pool to its node's disk. Threads: none; the pool actor serializes.
/// Ownership: owns nothing; the marks must outlive it.
class pool_disk {
public:
  pool_disk() = default;
  /// @param marks the pages that are on disk already
  pool_disk(const pool_disk_options& options, const directory::disk_marks& marks)
      : options_(options), marks_(&marks) {}

  bool on() const noexcept { return options_.gate != nullptr; }
  bool write_through() const noexcept { return options_.write_through; }

  /// Pins the page and queues it for the disk, if there is room and the page is not on disk yet.
  void keep(const storage::resident_page& page);
  /// Queues a page that stays in memory and has no hurry: it uses only one of `parts` parts of the
  /// room. Returns false, and counts nothing, when there is no room.
  bool keep_at_leisure(const storage::resident_page& page, std::uint64_t parts);
  /// Whether nothing is on its way to the disk.
  bool idle() const noexcept { return options_.gate->bytes() == 0; }
  bool takes_pages() const noexcept { return on() && options_.gate->open(); }
  bool is_pinned(slot_id slot) const noexcept { return options_.slots.pins(slot) != 0; }
  /// Records a page that the disk has read into its slot; its bytes match its checksum.
  void note_read(const storage::fill& page) noexcept {
    options_.slots.fill(page.slot, page.key, page.length_bytes, page.checksum);
  }
  /// Counts a page whose memory was taken at once by a set, unless the page is on disk or on its
  /// way there.
  void lose(const storage::evicted& page);
  /// Takes all queued pages, as one message (packed kept_page).
  std::string take_kept() { return std::exchange(kept_, {}); }

  disk_actor actor;
  disk_catch_up catch_up;

  /// A caller that waits until the pages in memory are on disk too.
  struct write_out {
    caf::typed_response_promise<std::uint64_t, std::uint64_t> promise;
    disk_catch_up::time_point until;
    std::uint64_t stored_before = 0;
  };
  std::vector<write_out> write_outs;
  std::uint64_t stored = 0; ///< Pages that the disk has taken since the start.

private:
  pool_disk_options options_;
  const directory::disk_marks* marks_ = nullptr;
  std::string kept_; ///< Queued kept_page records.
};

struct pool_state;
using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// Sends the pages queued by `keep` to the disk.
void send_to_disk(pool_pointer self);

caf::result<std::string> remove_pages(pool_pointer self, const std::string& keys);
std::string locate_pages(const pool_state& state, const std::string& keys);
std::string restore_pages(pool_pointer self, const std::string& filled);
void note_stored(pool_pointer self, const std::string& pages);

} // namespace peercache::actors
