#include "storage/disk/offset_store.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace peercache::storage {

std::unique_ptr<disk_store> make_offset_store(disk_io& io, const disk_store_options& options,
                                              std::unique_ptr<offset_index> index) {
  return std::make_unique<offset_store>(io, options, std::move(index));
}

offset_store::offset_store(disk_io& io, const disk_store_options& options,
                           std::unique_ptr<offset_index> index)
    : io_(io), options_(options), places_(std::move(index)),
      reserved_bytes_(std::min(places_->room_bytes(options.size_bytes), options.size_bytes)),
      requests_(io), reads_(requests_, table_),
      free_((options.size_bytes - reserved_bytes_) / disk_block_bytes), soon_(free_.blocks()) {}

offset_store::~offset_store() {
  std::vector<disk_event> nobody_waits;
  close(std::chrono::nanoseconds(0), nobody_waits);
  if (file_)
    io_.close(file_);
}

// -- the index

const disk_page* offset_store::find(const page_key& key) const {
  const auto* found = table_.find(key);
  return found == nullptr ? nullptr : &found->page;
}

bool offset_store::erase(const page_key& key) {
  if (!writes_.empty())
    writes_.for_each([&](std::uint32_t, write_op& op) { op.erased |= op.request.key == key; });
  const auto gone = table_.erase(key);
  if (gone)
    leaves(*gone);
  return gone.has_value();
}

void offset_store::forget(const entry& record) {
  const auto* now = table_.find(record.page.key);
  if (now == nullptr || now->sequence != record.sequence)
    return;
  leaves(record);
  table_.erase(record.page.key);
}

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

void offset_store::finish_eviction(std::uint64_t ticket) {
  table_.finish_eviction(ticket);
}

std::uint64_t offset_store::walk(std::uint64_t after, std::uint32_t count,
                                 const std::function<void(const disk_page&)>& visit) const {
  return table_.index().walk(after, count, visit);
}

// -- room

/// Counts a record out that has left the index: its extent will be free.
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
      give_back(gone); // The index has another place for the key.
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

// -- reads

bool offset_store::read(const disk_read& page) {
  const auto* found = closed_ ? nullptr : table_.find(page.key);
  if (found == nullptr) {
    tell(disk_event::kind::read, closed_ ? disk_status::refused : disk_status::not_found, page.tag,
         page.key);
    return true;
  }
  if (reads_.size() == reads_max)
    return false;
  reads_.start({page, *found, file_}, page_offset(*found));
  if (options_.lru && page.counts)
    table_.touch(page.key);
  return true;
}

void offset_store::on_read(std::uint32_t slot, int error_number) {
  const auto read = reads_.finish(slot);
  auto status = status_of(error_number);
  if (status == disk_status::ok && !page_fits(read.record.page, read.request.memory)) {
    status = disk_status::corrupt;
    ++corrupt_;
    forget(read.record);
  }
  tell(disk_event::kind::read, status, read.request.tag, read.request.key);
}

// -- turns

void offset_store::on_completion(const disk_completion& done) {
  requests_.finished();
  on_request(done.tag, done.error);
}

void offset_store::on_request(std::uint64_t tag, int error_number) {
  const auto slot = slot_of(tag);
  switch (part_of(tag)) {
  case page_part::header:
  case page_part::page:
    on_transfer(slot, error_number);
    break;
  case page_part::sync:
    on_sync(error_number);
    break;
  case page_part::folder: // This store has no folders.
    break;
  case page_part::read:
    on_read(slot, error_number);
    break;
  }
}

void offset_store::poll(disk_clock::time_point now, std::uint64_t unix_s,
                        std::vector<disk_event>& events) {
  now_ = now;
  unix_s_ = unix_s;
  for (const auto slot : std::exchange(fresh_, {}))
    add_transfers(slot);
  finish_commit();
  collect_released();
  if (sync_due())
    start_sync();
  if (commit_due())
    start_commit();
  requests_.start();
  events.insert(events.end(), events_.begin(), events_.end());
  events_.clear();
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

void offset_store::close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) {
  closed_ = true;
  const auto take = [this](const disk_completion& done) { on_completion(done); };
  const auto start = disk_clock::now();
  const auto start_now = now_;
  for (auto passed = disk_clock::duration(0); passed < at_most;
       passed = disk_clock::now() - start) {
    poll(start_now + passed, unix_s_, events);
    if (!busy())
      break;
    if (next_due() > now_)
      io_.wait(std::min<std::chrono::nanoseconds>(at_most - passed, options_.sync_after));
    requests_.take_completions(take);
  }
  requests_.end(take, [this](std::uint64_t tag, int error) { on_request(tag, error); });
  abandon();
  events.insert(events.end(), events_.begin(), events_.end());
  events_.clear();
}

/// Writes that got no further. An extent whose record is not in the index is free at the next
/// start.
void offset_store::abandon() {
  slots left;
  writes_.for_each([&](std::uint32_t slot, const write_op&) { left.push_back(slot); });
  for (const auto slot : left)
    end_write(slot, disk_status::refused);
  for (auto* line : {&fresh_, &written_, &syncing_, &synced_, &committing_})
    line->clear();
}

disk_store_stats offset_store::stats() const {
  disk_store_stats now;
  now.used_bytes = options_.size_bytes - (free_.free_blocks() - holes_blocks_) * disk_block_bytes;
  const bool holes_join = refused_blocks_ != 0 && soon_.largest() >= refused_blocks_;
  now.leaving_bytes =
      (soon_.free_blocks() - free_.free_blocks() + (holes_join ? holes_blocks_ : 0)) *
      disk_block_bytes;
  now.page_bytes = table_.index().page_bytes();
  now.pages = table_.index().size();
  now.files = 1;
  now.syncs = syncs_;
  now.corrupt = corrupt_;
  return now;
}

void offset_store::tell(disk_event::kind what, disk_status status, std::uint64_t tag,
                        const page_key& key) {
  events_.push_back({what, status, tag, key});
}

} // namespace peercache::storage
