#include "storage/disk/file_per_key/file_store.hpp"

#include "common/log.hpp"
#include "storage/disk/file_per_key/file_names.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace peercache::storage {
namespace {

/// Most files that one poll removes: a removal keeps the owner waiting.
constexpr std::size_t removals_per_poll = 32;
/// A poll stops removing files after this many failed removals: a device may take its time to fail.
constexpr std::size_t failures_per_poll = 4;
/// A round of syncs starts without waiting for more pages when this many are written.
constexpr std::size_t round_pages = 64;
/// A file that could not be removed is tried again after this time.
constexpr auto removal_pause = std::chrono::seconds(1);

} // namespace

std::string_view file_store_files() noexcept {
  return page_files_folder;
}

std::unique_ptr<disk_store> make_file_store(disk_io& io, const disk_store_options& options) {
  return std::make_unique<file_store>(io, options);
}

file_store::file_store(disk_io& io, const disk_store_options& options)
    : record_store(io, options, round_pages) {}

file_store::~file_store() {
  std::vector<disk_event> nobody_waits;
  close(std::chrono::nanoseconds(0), nobody_waits);
  for (const auto folder : folders_)
    if (folder)
      io_.close(folder);
}

// Functions for records that leave the index.

/// Notes that a record is out of the index: its file has to be removed, unless a newer record of
/// the key has the file's name by now.
void file_store::leaves(const entry& record) {
  leaving_bytes_ += file_bytes(record.page.length_bytes);
  if (!replacing_.contains(record.page.key))
    stale_names_[record.page.key] = record.sequence;
}

disk_eviction file_store::begin_eviction(std::uint64_t bytes) {
  std::uint64_t evicted_bytes = 0;
  return table_.begin_eviction([&] { return evicted_bytes >= bytes; },
                               [&](const entry& gone) {
                                 leaves(gone);
                                 evicted_bytes += file_bytes(gone.page.length_bytes);
                               });
}

void file_store::collect_released() {
  for (const auto& gone : table_.take_released()) {
    const auto stale = stale_names_.find(gone.page.key);
    if (stale != stale_names_.end() && stale->second == gone.sequence)
      to_remove_.push_back({gone});
    // The name belongs to a newer record by now, whose file has replaced this record's file:
    // nothing is left to remove.
    else
      give_back(gone);
  }
}

void file_store::give_back(const entry& gone) {
  used_bytes_ -= file_bytes(gone.page.length_bytes);
  leaving_bytes_ -= file_bytes(gone.page.length_bytes);
}

void file_store::remove_files() {
  std::size_t failures = 0;
  const auto remove_first = [&](std::deque<doomed_file>& line) {
    const auto file = line.front();
    line.pop_front();
    failures += remove_or_keep(file) ? 0 : 1;
  };
  for (std::size_t i = 0; i < removals_per_poll && failures < failures_per_poll; ++i)
    if (!to_remove_.empty())
      remove_first(to_remove_);
    else if (!stuck_.empty() && stuck_.front().not_before <= now_)
      remove_first(stuck_);
}

/// Removes the file of a record. False: it could not be removed, and is tried again later. Until
/// then its bytes count as leaving, so that no other page is evicted to make up for them. A file
/// that stays until the store ends is found again at the next start.
bool file_store::remove_or_keep(doomed_file file) {
  const auto& record = file.record;
  const auto stale = stale_names_.find(record.page.key);
  const bool has_name = stale != stale_names_.end() && stale->second == record.sequence;
  if (file.temporary || has_name) {
    const auto name = file.temporary ? temporary_page_file(record.page.key, record.sequence)
                                     : page_file(record.page.key);
    const auto removed = io_.remove(name);
    if (!removed && removed.error().code != errc::not_found) {
      if (stuck_.empty() && file.not_before == disk_clock::time_point{})
        log::warn("disk: a file stays, and takes its room, until it can be removed: {}",
                  removed.error().message);
      file.not_before = now_ + removal_pause;
      stuck_.push_back(file);
      return false;
    }
    if (has_name && !file.temporary)
      stale_names_.erase(stale);
  }
  give_back(record);
  return true;
}

// Functions for reads.

bool file_store::read(const disk_read& page) {
  const auto* found = readable(page);
  if (found == nullptr)
    return true;
  if (reads_.size() == reads_max || replacing_.contains(page.key))
    return false;
  const auto record = *found;
  const auto file = io_.open(page_file(page.key));
  if (!file) {
    const bool missing = file.error().code == errc::not_found;
    if (missing)
      forget(record);
    tell(disk_event::kind::read, missing ? disk_status::not_found : disk_status::io_failed,
         page.tag, page.key);
    return true;
  }
  start_read(page, record, *file);
  return true;
}

disk_status file_store::judge(const read_op& read, int error_number) {
  auto status = record_store::judge(read, error_number);
  if (error_number != 0 && error_number != ECANCELED) {
    const auto bytes = io_.bytes_of(read.file);
    const bool cut_short = bytes && *bytes < file_bytes(read.record.page.length_bytes);
    status = cut_short ? disk_status::corrupt : disk_status::io_failed;
  }
  io_.close(read.file);
  return status;
}

// Functions for polls, the end of the store, and its statistics.

void file_store::poll(disk_clock::time_point now, std::uint64_t unix_s,
                      std::vector<disk_event>& events) {
  now_ = now;
  unix_s_ = unix_s;
  again_ = std::exchange(more_, false);
  start_transfers();
  if (pages_due())
    finish_round();
  if (names_due())
    name_round();
  if (sync_due())
    begin_round();
  requests_.start();
  collect_released();
  remove_files();
  hand_out(events);
}

disk_clock::time_point file_store::next_due() const {
  if (!events_.empty() || !fresh_.empty() || again_ || requests_.must_start())
    return now_;
  if (pages_due() || names_due() || sync_due() || !to_remove_.empty() || table_.has_released())
    return now_;
  auto due = stuck_.empty() ? disk_clock::time_point::max() : stuck_.front().not_before;
  if (syncing_.empty() && !written_.empty())
    due = std::min(due, written_since_ + options_.sync_after);
  return due;
}

bool file_store::busy() const noexcept {
  return !writes_.empty() || !reads_.empty() || !to_remove_.empty() || table_.has_released();
}

/// Ends the writes that are not durable. What is left of their files is removed at the next start.
void file_store::abandon() {
  for (const auto slot : take_unfinished())
    drop_write(slot, disk_status::refused);
  syncing_.clear();
  named_.clear();
  replacing_.clear();
}

disk_store_stats file_store::stats() const {
  auto now = counted();
  now.used_bytes = used_bytes_;
  now.leaving_bytes = leaving_bytes_;
  now.files = now.pages + writes_.size() + stale_names_.size();
  return now;
}

} // namespace peercache::storage
