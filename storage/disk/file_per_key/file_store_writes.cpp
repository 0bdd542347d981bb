// How a file_store writes a record: its file, the sync, the page's name, the sync of the folder.

#include "common/assert.hpp"
#include "storage/disk/file_per_key/file_names.hpp"
#include "storage/disk/file_per_key/file_store.hpp"
#include "storage/disk/page_check.hpp"

#include <utility>

namespace peercache::storage {

// Functions that take writes and start their transfers.

bool file_store::write(const disk_write& page) {
  if (refuses(page))
    return true;
  if (used_bytes_ + file_bytes(page.length_bytes) > options_.size_bytes) {
    collect_released();
    remove_files();
  }
  if (used_bytes_ + file_bytes(page.length_bytes) > options_.size_bytes) {
    tell(disk_event::kind::written, disk_status::no_room, page.tag, page.key);
    return true;
  }
  // Writes in `named_` do not count against `writes_max`, because their files are closed.
  if (writes_.size() - named_.size() == writes_max) {
    crowded_ = true;
    return false;
  }
  if (fresh_.size() == writes_at_once) {
    more_ = true;
    return false;
  }
  start_write(page);
  return true;
}

void file_store::start_write(const disk_write& page) {
  const auto sequence = next_sequence_++;
  auto ready = prepare_folder(page_folder_number(page.key));
  result<disk_file> file = disk_file{};
  if (ready)
    file = io_.create(temporary_page_file(page.key, sequence), file_bytes(page.length_bytes));
  if (!ready || !file) {
    const auto& why = ready ? file.error() : ready.error();
    tell(disk_event::kind::written, status_of(why), page.tag, page.key);
    return;
  }
  write_op op;
  op.request = page;
  op.record = {page_of(page, 0), 0, sequence};
  op.file = *file;
  used_bytes_ += file_bytes(page.length_bytes);
  fresh_.push_back(writes_.add(op));
}

// Functions for rounds of syncs.

void file_store::begin_round() {
  PEERCACHE_ASSERT(syncing_.empty() && syncs_left_ == 0); // One round of syncs runs at a time.
  syncing_ = take_written();
  syncs_left_ = syncing_.size();
  for (const auto slot : syncing_) {
    disk_request request;
    request.what = disk_request::kind::sync;
    request.file = writes_[slot].file;
    request.tag = tag_of(slot, request_part::sync);
    requests_.add(request);
    ++syncs_;
  }
}

void file_store::on_sync(std::uint32_t slot, int error_number) {
  writes_[slot].error = error_number;
  PEERCACHE_ASSERT(syncs_left_ != 0);
  --syncs_left_;
}

bool file_store::names_due() const noexcept {
  return !syncing_.empty() && syncs_left_ == 0 && named_.empty();
}

bool file_store::pages_due() const noexcept {
  return !named_.empty() && folders_left_ == 0;
}

// Functions that give files their pages' names, and end writes.

/// Renames the files of a round by age, so that the newest record of a key is renamed last and
/// keeps the name.
void file_store::name_round() {
  // The round's files are durable, but for failed writes.
  PEERCACHE_ASSERT(named_.empty() && syncs_left_ == 0);
  auto writes = std::exchange(syncing_, {});
  sort_by_age(writes);
  for (const auto slot : writes)
    if (rename_record(slot))
      named_.push_back(slot);
  sync_folders();
}

/// Gives a record's file the page's name. False: the file got no name, and the write has ended.
bool file_store::rename_record(std::uint32_t slot) {
  auto& op = writes_[slot];
  const auto* there = table_.find(op.record.page.key);
  if (op.error != 0 || op.erased) {
    drop_write(slot, op.erased ? disk_status::refused : status_of(op.error));
    return false;
  }
  if (there != nullptr && there->sequence > op.record.sequence) {
    // A newer write of the key is durable already, so this page was replaced before it was a page.
    drop_write(slot, disk_status::ok);
    return false;
  }
  const auto renamed = io_.rename(temporary_page_file(op.record.page.key, op.record.sequence),
                                  page_file(op.record.page.key));
  if (!renamed) {
    drop_write(slot, status_of(renamed.error()));
    return false;
  }
  io_.close(std::exchange(op.file, {}));
  stale_names_.erase(op.record.page.key);
  if (there != nullptr)
    replacing_.insert(op.record.page.key);
  return true;
}

void file_store::sync_folders() {
  std::bitset<page_folders> touched;
  for (const auto slot : named_)
    touched.set(page_folder_number(writes_[slot].record.page.key));
  folders_failed_.reset();
  if (named_.empty())
    return;
  if (!sync_parents())
    folders_failed_.set();
  folders_left_ = touched.count();
  for (std::uint32_t folder = 0; folder < page_folders; ++folder) {
    if (!touched[folder])
      continue;
    disk_request request;
    request.what = disk_request::kind::sync_folder;
    request.file = folders_[folder];
    request.tag = tag_of(folder, request_part::folder);
    requests_.add(request);
    ++syncs_;
  }
}

void file_store::on_folder_sync(std::uint32_t folder, int error_number) {
  if (error_number != 0)
    folders_failed_.set(folder);
  PEERCACHE_ASSERT(folders_left_ != 0);
  --folders_left_;
}

void file_store::finish_round() {
  // The syncs of all folders with names of this round have ended.
  PEERCACHE_ASSERT(folders_left_ == 0);
  replacing_.clear();
  for (const auto slot : std::exchange(named_, {})) {
    const auto& op = writes_[slot];
    if (op.erased)
      withdraw(slot, disk_status::refused);
    else if (folders_failed_[page_folder_number(op.record.page.key)])
      withdraw(slot, disk_status::io_failed);
    else
      publish(slot);
  }
}

void file_store::publish(std::uint32_t slot) {
  const auto op = finish_write(slot, disk_status::ok);
  if (const auto replaced = table_.insert(op.record))
    // The new record took the file name of the replaced one, whose bytes are given back when nobody
    // reads it.
    leaving_bytes_ += file_bytes(replaced->page.length_bytes);
}

/// Gives up a record whose file has the page's name, though perhaps not durably. The record that
/// had the name before is given up as well, because the rename has replaced its file.
void file_store::withdraw(std::uint32_t slot, disk_status status) {
  const auto op = finish_write(slot, status);
  leaving_bytes_ += file_bytes(op.record.page.length_bytes);
  stale_names_[op.record.page.key] = op.record.sequence;
  if (const auto before = table_.erase(op.record.page.key))
    leaving_bytes_ += file_bytes(before->page.length_bytes);
  remove_or_keep({op.record});
}

void file_store::drop_write(std::uint32_t slot, disk_status status) {
  const auto op = finish_write(slot, status);
  leaving_bytes_ += file_bytes(op.record.page.length_bytes);
  remove_or_keep({op.record, true});
}

file_store::write_op file_store::finish_write(std::uint32_t slot, disk_status status) {
  const auto op = end_write(slot, status);
  if (op.file)
    io_.close(op.file);
  return op;
}

} // namespace peercache::storage
