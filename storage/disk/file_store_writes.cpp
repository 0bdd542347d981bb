// The way of a record to its file.

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "storage/disk/file_names.hpp"
#include "storage/disk/file_store.hpp"
#include "storage/disk/page_check.hpp"
#include "storage/disk/page_writes.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace peercache::storage {
namespace {

/// A round starts without waiting for others when it has so much.
constexpr std::uint64_t round_bytes = 16u << 20;
constexpr std::size_t round_pages = 64;

} // namespace

// -- transfers

bool file_store::write(const disk_write& page) {
  const bool is_page = page.length_bytes != 0 && page.length_bytes <= limits::page_bytes_max;
  if (closed_ || !is_page) {
    tell(disk_event::kind::written, disk_status::refused, page.tag, page.key);
    return true;
  }
  if (used_bytes_ + file_bytes(page.length_bytes) > options_.size_bytes) {
    collect_released();
    remove_files();
  }
  if (used_bytes_ + file_bytes(page.length_bytes) > options_.size_bytes) {
    tell(disk_event::kind::written, disk_status::no_space, page.tag, page.key);
    return true;
  }
  if (writes_.size() - named_.size() == writes_max) { // Files that have their name are closed.
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
  op.page = page_of(page, 0);
  op.sequence = sequence;
  op.file = *file;
  used_bytes_ += file_bytes(page.length_bytes);
  fresh_.push_back(writes_.add(op));
}

/// Now that the time is known.
void file_store::start_transfers() {
  for (const auto slot : std::exchange(fresh_, {}))
    add_transfers(slot);
}

void file_store::add_transfers(std::uint32_t slot) {
  auto& op = writes_[slot];
  op.page.written_s = unix_s_;
  auto header = header_of(op.page, options_.owner, op.sequence, disk_block_bytes);
  op.header = headers_.take(header);
  op.transfers = add_page_write(requests_, {op.file, 0}, op.header, op.request, slot);
  ++transferring_;
}

void file_store::on_transfer(std::uint32_t slot, int error_number) {
  auto& op = writes_[slot];
  if (op.error == 0)
    op.error = error_number;
  if (--op.transfers != 0)
    return;
  --transferring_;
  headers_.give_back(op.header);
  op.header = nullptr;
  if (op.error != 0 || op.erased) {
    drop_write(slot, op.erased ? disk_status::refused : status_of(op.error));
    return;
  }
  if (written_.empty())
    written_since_ = now_;
  written_.push_back(slot);
  written_bytes_ += op.page.length_bytes;
}

// -- rounds of syncs

bool file_store::sync_due() const noexcept {
  if (written_.empty() || !syncing_.empty())
    return false;
  const bool nobody_else = transferring_ == 0;
  const bool enough = written_bytes_ >= round_bytes || written_.size() >= round_pages;
  const bool late = now_ >= written_since_ + options_.sync_after;
  return nobody_else || enough || late || crowded_ || closed_;
}

void file_store::begin_round() {
  syncing_ = std::exchange(written_, {});
  written_bytes_ = 0;
  syncs_left_ = syncing_.size();
  crowded_ = false;
  for (const auto slot : syncing_) {
    disk_request request;
    request.what = disk_request::kind::sync;
    request.file = writes_[slot].file;
    request.tag = tag_of(slot, page_part::sync);
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

// -- names

/// Renames the files of a round by age: the newest record of a key is renamed last.
void file_store::name_round() {
  auto slots = std::exchange(syncing_, {});
  std::sort(slots.begin(), slots.end(), [this](std::uint32_t a, std::uint32_t b) {
    return writes_[a].sequence < writes_[b].sequence;
  });
  for (const auto slot : slots)
    if (rename_record(slot))
      named_.push_back(slot);
  sync_folders();
}

/// Gives a record's file its name; false: the write has ended instead.
bool file_store::rename_record(std::uint32_t slot) {
  auto& op = writes_[slot];
  const auto* there = table_.find(op.page.key);
  if (op.error != 0 || op.erased) {
    drop_write(slot, op.erased ? disk_status::refused : status_of(op.error));
    return false;
  }
  if (there != nullptr && there->sequence > op.sequence) {
    drop_write(slot, disk_status::ok); // The page was replaced before it was in the index.
    return false;
  }
  const auto renamed =
      io_.rename(temporary_page_file(op.page.key, op.sequence), page_file(op.page.key));
  if (!renamed) {
    drop_write(slot, status_of(renamed.error()));
    return false;
  }
  io_.close(std::exchange(op.file, {}));
  stale_names_.erase(op.page.key);
  if (there != nullptr)
    replacing_.insert(op.page.key);
  return true;
}

void file_store::sync_folders() {
  std::bitset<page_folders> touched;
  for (const auto slot : named_)
    touched.set(page_folder_number(writes_[slot].page.key));
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
    request.tag = tag_of(folder, page_part::folder);
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
  replacing_.clear();
  for (const auto slot : std::exchange(named_, {})) {
    const auto& op = writes_[slot];
    if (op.erased)
      withdraw(slot, disk_status::refused);
    else if (folders_failed_[page_folder_number(op.page.key)])
      withdraw(slot, disk_status::io_failed);
    else
      publish(slot);
  }
}

void file_store::publish(std::uint32_t slot) {
  const auto op = end_write(slot, disk_status::ok);
  if (const auto replaced = table_.insert({op.page, 0, op.sequence}))
    leaving_bytes_ += file_bytes(replaced->page.length_bytes); // The new record has its name.
}

/// The record has its name, but perhaps not for good: it goes, and what had the name before.
void file_store::withdraw(std::uint32_t slot, disk_status status) {
  const auto op = end_write(slot, status);
  leaving_bytes_ += file_bytes(op.page.length_bytes);
  stale_names_[op.page.key] = op.sequence;
  if (const auto before = table_.erase(op.page.key))
    leaving_bytes_ += file_bytes(before->page.length_bytes);
  remove_or_keep({{op.page, 0, op.sequence}});
}

void file_store::drop_write(std::uint32_t slot, disk_status status) {
  const auto op = end_write(slot, status);
  leaving_bytes_ += file_bytes(op.page.length_bytes);
  remove_or_keep({{op.page, 0, op.sequence}, true});
}

file_store::write_op file_store::end_write(std::uint32_t slot, disk_status status) {
  const auto op = writes_.take(slot);
  if (op.file)
    io_.close(op.file);
  tell(disk_event::kind::written, status, op.request.tag, op.request.key);
  return op;
}

} // namespace peercache::storage
