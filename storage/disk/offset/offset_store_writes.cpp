// How an offset_store writes a record to its extent and puts it into the index.

#include "common/assert.hpp"
#include "storage/disk/offset/offset_store.hpp"
#include "storage/disk/page_check.hpp"

#include <utility>

namespace peercache::storage {

// Functions that take writes.

bool offset_store::write(const disk_write& page) {
  if (refuses(page))
    return true;
  if (writes_.size() == writes_max) {
    crowded_ = true;
    return false;
  }
  write_op op;
  op.request = page;
  op.record.page = page_of(page, 0);
  const auto place = find_room(op.record.page);
  if (!place) {
    tell(disk_event::kind::written, disk_status::no_room, page.tag, page.key);
    return true;
  }
  op.record.place = *place;
  op.record.sequence = next_sequence_++;
  op.file = file_;
  fresh_.push_back(writes_.add(op));
  return true;
}

// Functions for the sync of the file.

void offset_store::start_sync() {
  PEERCACHE_ASSERT(!sync_on_its_way_ && syncing_.empty());
  disk_request request;
  request.what = disk_request::kind::sync;
  request.file = file_;
  request.tag = tag_of(0, request_part::sync);
  requests_.add(request);
  ++syncs_;
  sync_on_its_way_ = true;
  syncing_ = take_written();
}

void offset_store::on_sync(std::uint32_t, int error_number) {
  PEERCACHE_ASSERT(sync_on_its_way_);
  sync_on_its_way_ = false;
  for (const auto slot : std::exchange(syncing_, {})) {
    if (error_number != 0)
      drop_write(slot, status_of(error_number));
    else
      synced_.push_back(slot);
  }
}

/// Gives up a write that was never handed to the index, so that its extent is free at once.
void offset_store::drop_write(std::uint32_t slot, disk_status status) {
  const auto op = end_write(slot, status);
  leaves(op.record);
  give_back(op.record);
}

// Functions for commits of the index.

bool offset_store::commit_due() const noexcept {
  return !commit_on_its_way_ && now_ >= commit_not_before_ &&
         (!synced_.empty() || !to_remove_.empty());
}

void offset_store::start_commit() {
  PEERCACHE_ASSERT(!commit_on_its_way_ && committing_.empty() && removing_.empty());
  offset_index_batch batch;
  add_removals(batch);
  add_records(batch);
  if (batch.empty())
    return;
  batch.next_sequence = next_sequence_ + sequence_margin;
  commit_on_its_way_ = true;
  places_->commit(std::move(batch), [this] { io_.wake(); });
}

void offset_store::add_removals(offset_index_batch& batch) {
  for (const auto& gone : std::exchange(to_remove_, {})) {
    if (table_.find(gone.page.key) != nullptr) {
      // The index has a newer place for the key by now, so the extent is free without a removal.
      give_back(gone);
    } else {
      batch.removed.push_back(gone.page.key);
      removing_.push_back(gone);
    }
  }
}

void offset_store::add_records(offset_index_batch& batch) {
  sort_by_age(synced_);
  for (const auto slot : std::exchange(synced_, {})) {
    const auto& op = writes_[slot];
    const auto* there = table_.find(op.request.key);
    if (op.erased) {
      drop_write(slot, disk_status::refused);
    } else if (there != nullptr && there->sequence > op.record.sequence) {
      // A newer write of the key is in the index already, so this page was replaced before it was a
      // page.
      drop_write(slot, disk_status::ok);
    } else {
      auto header =
          header_of(op.record.page, options_.owner, op.record.sequence, page_offset(op.record));
      seal(header);
      batch.put.push_back(header);
      committing_.push_back(slot);
    }
  }
}

void offset_store::finish_commit() {
  if (!commit_on_its_way_)
    return;
  const auto ended = places_->committed();
  if (!ended)
    return;
  commit_on_its_way_ = false;
  ++syncs_;
  if (!*ended)
    commit_not_before_ = now_ + options_.sync_after;
  for (const auto& gone : std::exchange(removing_, {})) {
    if (*ended)
      give_back(gone);
    else
      to_remove_.push_back(gone);
  }
  for (const auto slot : std::exchange(committing_, {})) {
    if (*ended && !writes_[slot].erased)
      publish(slot);
    else
      undo(slot, *ended ? disk_status::refused : status_of(ended->error()));
  }
}

void offset_store::publish(std::uint32_t slot) {
  const auto op = end_write(slot, disk_status::ok);
  if (const auto replaced = table_.insert(op.record))
    leaves(*replaced);
}

/// Gives up a write whose commit failed, or whose page was erased during the commit. The index may
/// name the write's record or the record before it, so both records leave, and the key is removed
/// from the index before their extents are free.
void offset_store::undo(std::uint32_t slot, disk_status status) {
  const auto op = end_write(slot, status);
  if (const auto before = table_.erase(op.request.key))
    leaves(*before);
  leaves(op.record);
  to_remove_.push_back(op.record);
}

} // namespace peercache::storage
