#include "storage/disk/offset/offset_store.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

/// A sync starts without waiting for more pages when it covers this many.
constexpr std::size_t pages_per_sync = 256;

} // namespace

std::string_view offset_store_files() noexcept {
  return offset_file;
}

std::unique_ptr<disk_store> make_offset_store(disk_io& io, const disk_store_options& options,
                                              std::unique_ptr<offset_index> index) {
  return std::make_unique<offset_store>(io, options, std::move(index));
}

offset_store::offset_store(disk_io& io, const disk_store_options& options,
                           std::unique_ptr<offset_index> index)
    : record_store(io, options, pages_per_sync), places_(std::move(index)),
      reserved_bytes_(std::min(places_->room_bytes(options.size_bytes), options.size_bytes)),
      free_((options.size_bytes - reserved_bytes_) / disk_block_bytes), soon_(free_.blocks()) {}

offset_store::~offset_store() {
  std::vector<disk_event> nobody_waits;
  close(std::chrono::nanoseconds(0), nobody_waits);
  if (file_)
    io_.close(file_);
}

// Functions that evict pages.

disk_eviction offset_store::begin_eviction(std::uint64_t bytes) {
  std::uint64_t evicted_bytes = 0;
  const auto enough = [&] {
    return evicted_bytes >= bytes && (bytes == 0 || soon_.largest() >= refused_blocks_);
  };
  return table_.begin_eviction(enough, [&](const entry& gone) {
    leaves(gone);
    evicted_bytes += blocks_of(gone.page) * disk_block_bytes;
  });
}

// Functions that keep account of the free room in the file.

/// Counts the extent of a record that has left the index as one that is about to become free.
void offset_store::leaves(const entry& record) {
  soon_.free(record.place, blocks_of(record.page));
}

void offset_store::give_back(const entry& record) {
  free_.free(record.place, blocks_of(record.page));
  if (refused_blocks_ != 0 && free_.largest() >= refused_blocks_)
    refused_blocks_ = holes_blocks_ = 0;
}

void offset_store::collect_released() {
  for (const auto& gone : table_.take_released()) {
    if (table_.find(gone.page.key) != nullptr)
      // The key has a newer record, whose place replaced this one in the index, so this extent is
      // free without a removal.
      give_back(gone);
    else
      to_remove_.push_back(gone);
  }
}

std::optional<std::uint64_t> offset_store::find_room(const disk_page& page) {
  const auto blocks = blocks_of(page);
  const auto place = free_.allocate(blocks);
  if (place) {
    soon_.take(*place, blocks);
  } else if (blocks > refused_blocks_ && blocks <= free_.blocks()) {
    refused_blocks_ = blocks;
    holes_blocks_ = free_.free_in_smaller(blocks);
  }
  return place;
}

// Functions for reads.

bool offset_store::read(const disk_read& page) {
  const auto* found = readable(page);
  if (found == nullptr)
    return true;
  if (reads_.size() == reads_max)
    return false;
  start_read(page, *found, file_);
  return true;
}

// Functions for polls, the end of the store, and its statistics.

void offset_store::poll(disk_clock::time_point now, std::uint64_t unix_s,
                        std::vector<disk_event>& events) {
  now_ = now;
  unix_s_ = unix_s;
  start_transfers();
  finish_commit();
  collect_released();
  if (sync_due())
    start_sync();
  if (commit_due())
    start_commit();
  requests_.start();
  hand_out(events);
}

disk_clock::time_point offset_store::next_due() const {
  auto due = disk_clock::time_point::max();
  if (!events_.empty() || !fresh_.empty() || requests_.must_start())
    return now_;
  if (table_.has_released() || sync_due() || commit_due())
    return now_;
  if (!written_.empty() && !sync_on_its_way_)
    due = written_since_ + options_.sync_after;
  if (!commit_on_its_way_ && (!synced_.empty() || !to_remove_.empty()))
    due = std::min(due, commit_not_before_);
  return due;
}

bool offset_store::busy() const noexcept {
  return !writes_.empty() || !reads_.empty() || commit_on_its_way_ || !to_remove_.empty() ||
         table_.has_released();
}

/// Ends the writes that are not in the index yet. Their extents need not be freed: an extent whose
/// record is not in the index is free at the next start.
void offset_store::abandon() {
  for (const auto slot : take_unfinished())
    end_write(slot, disk_status::refused);
  for (auto* line : {&syncing_, &synced_, &committing_})
    line->clear();
}

disk_store_stats offset_store::stats() const {
  auto now = counted();
  now.used_bytes = options_.size_bytes - (free_.free_blocks() - holes_blocks_) * disk_block_bytes;
  const bool holes_join = refused_blocks_ != 0 && soon_.largest() >= refused_blocks_;
  now.leaving_bytes =
      (soon_.free_blocks() - free_.free_blocks() + (holes_join ? holes_blocks_ : 0)) *
      disk_block_bytes;
  now.files = 1;
  return now;
}

} // namespace peercache::storage
