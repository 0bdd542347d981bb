#pragma once

#include "actors/disk_catch_up.hpp"
#include "actors/disk_service.hpp"
#include "actors/protocol/disk.hpp"
#include "actors/protocol/disk_wire.hpp"
#include "actors/protocol/pool.hpp"
#include "directory/wire.hpp"
#include "discovery/hash_ring.hpp"
#include "storage/page_pool.hpp"
#include "storage/slot_table.hpp"

#include <deque>
#include <string>
#include <vector>

// The pool actor's half of the conversation with the disk tier. A page's record in the directory
// says `memory` while it is in the pool, `disk` when it is on disk only. Which pages of the pool
// are on disk too is a mark here, set by the disk's word; so eviction asks nobody.
namespace peercache::actors {

struct pool_disk_options {
  disk_gate* gate = nullptr; ///< Null: there is no disk tier.
  storage::slot_table slots;
  bool write_through = false; ///< After a set; otherwise before an eviction only.
};

/// Slots whose page is on disk.
class disk_marks {
public:
  void insert(slot_id slot) {
    if (slot.value >= marked_.size())
      marked_.resize(slot.value + std::size_t{1});
    count_ += marked_[slot.value] ? 0 : 1;
    marked_[slot.value] = true;
  }
  bool contains(slot_id slot) const { return slot.value < marked_.size() && marked_[slot.value]; }
  /// Whether it was there.
  bool erase(slot_id slot) {
    const bool was = contains(slot);
    if (was)
      marked_[slot.value] = false;
    count_ -= was ? 1 : 0;
    return was;
  }
  std::uint64_t size() const noexcept { return count_; }

private:
  std::vector<bool> marked_;
  std::uint64_t count_ = 0;
};

/// What the pool knows of its node's disk. Threads: none; the pool actor serializes.
class pool_disk {
public:
  pool_disk() = default;
  pool_disk(const pool_disk_options& options, node_id self, const incarnation& inc)
      : options_(options), self_(self), inc_(inc) {}

  bool on() const noexcept { return options_.gate != nullptr; }
  bool write_through() const noexcept { return options_.write_through; }

  /// Pins the page and queues it for the disk, when there is room and it is not there yet.
  void keep(const storage::resident_page& page);
  /// The same for a page that stays in memory, and that nobody waits for: it leaves all but one of
  /// so many parts of the room to others. False, and nothing is counted, when there is none.
  bool keep_at_leisure(const storage::resident_page& page, std::uint64_t parts);
  /// Nothing is on its way to the disk.
  bool idle() const noexcept { return options_.gate->bytes() == 0; }
  bool takes_pages() const noexcept { return on() && options_.gate->open(); }
  bool is_pinned(slot_id slot) const noexcept { return options_.slots.pins(slot) != 0; }
  /// The disk has read this page into its slot, and its bytes have its checksum.
  void note_read(const storage::fill& page) noexcept {
    options_.slots.fill(page.slot, page.key, page.length_bytes, page.checksum);
  }
  /// A set took this page's memory at once: counted, unless the page is on disk or on its way
  /// there.
  void lose(const storage::evicted& page);
  /// The page in memory is on disk from here on, or no longer: the disk has given it up for others.
  void note_kept(slot_id slot);
  void note_let_go(slot_id slot);
  /// The page left memory. Whether it is on disk.
  bool forget(slot_id slot);
  /// The queue, for one message.
  std::string take_kept() { return std::exchange(kept_, {}); }

  /// The directory is to know that this page is on disk only.
  void add_record(const page_key& key, generation gen, std::uint64_t checksum,
                  std::uint32_t length_bytes);

  /// These pages (packed keys) are removed: what waits to be published of them is not.
  void drop_records(const std::string& keys);

  disk_marks marks;
  /// Pages in memory that the disk has given up for others: not written again at leisure, or a disk
  /// smaller than the pool would never rest. Their slots leave with the page.
  disk_marks let_go;
  disk_writer_actor actor;
  disk_catch_up catch_up;

  /// Somebody waits until what is in memory is on disk too.
  struct write_out {
    caf::typed_response_promise<std::uint64_t, std::uint64_t> promise;
    disk_catch_up::time_point until;
    std::uint64_t stored_before = 0;
  };
  std::vector<write_out> write_outs;
  std::uint64_t stored = 0; ///< Pages that the disk has taken since the start.

  /// Records that some directory owner has not heard of yet.
  std::deque<directory::publish_record> records;
  bool missed = false;     ///< There was no room in `records`: all is to be published again.
  bool publishing = false; ///< Some of `records` are on their way.

  /// All pages of the disk, on their way to those owners that `before` did not have.
  struct walk {
    bool active = false;
    std::uint64_t number = 0; ///< A newer one takes its place.
    discovery::hash_ring before;
    std::uint64_t after = 0; ///< The place of the last one.
  };
  walk walking;

  static constexpr std::size_t records_max = 1u << 18;

private:
  pool_disk_options options_;
  node_id self_;
  incarnation inc_;
  std::string kept_; ///< kept_page records.
};

struct pool_state;
using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// Hands the disk what `keep` collected.
void send_to_disk(pool_pointer self);
/// Sends the next records, and goes on after the answers.
void publish_disk_records(pool_pointer self);
/// Publishes all pages that are on disk only to owners that are not `before`'s.
void publish_disk(pool_pointer self, discovery::hash_ring before);
void continue_walk(pool_pointer self, std::uint64_t number);

caf::result<std::string> remove_pages(pool_pointer self, const std::string& keys);
std::string locate_pages(const pool_state& state, const std::string& keys);
std::string restore_pages(pool_pointer self, const std::string& filled);
void note_stored(pool_pointer self, const std::string& pages);
void note_gone(pool_pointer self, std::uint64_t ticket, const std::string& keys);

} // namespace peercache::actors
