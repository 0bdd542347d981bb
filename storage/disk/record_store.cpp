#include "storage/disk/record_store.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "storage/disk/page_check.hpp"
#include "storage/disk/page_writes.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

/// A sync starts without waiting for more pages when it covers this many bytes.
constexpr std::uint64_t sync_bytes = 16u << 20;

} // namespace

record_store::record_store(disk_io& io, const disk_store_options& options, std::size_t sync_pages)
    : io_(io), options_(options), sync_pages_(sync_pages), requests_(io),
      reads_(requests_, table_) {}

// Functions for the index of durable records.

const disk_page* record_store::find(const page_key& key) const {
  const auto* found = table_.find(key);
  return found == nullptr ? nullptr : &found->page;
}

bool record_store::erase(const page_key& key) {
  if (!writes_.empty())
    writes_.for_each([&](std::uint32_t, write_op& op) { op.erased |= op.request.key == key; });
  const auto gone = table_.erase(key);
  if (gone)
    leaves(*gone);
  return gone.has_value();
}

std::uint64_t record_store::walk(std::uint64_t after, std::uint32_t count,
                                 const std::function<void(const disk_page&)>& visit) const {
  return table_.index().walk(after, count, visit);
}

void record_store::forget(const entry& record) {
  const auto* now = table_.find(record.page.key);
  if (now == nullptr || now->sequence != record.sequence)
    return;
  leaves(record);
  table_.erase(record.page.key);
}

// Functions for writes.

bool record_store::refuses(const disk_write& page) {
  const bool is_page = page.length_bytes != 0 && page.length_bytes <= limits::page_bytes_max;
  if (!closed_ && is_page)
    return false;
  tell(disk_event::kind::written, disk_status::refused, page.tag, page.key);
  return true;
}

/// Makes the headers of fresh writes and starts their transfers. Called in `poll`, which brings the
/// time that the headers need.
void record_store::start_transfers() {
  for (const auto slot : std::exchange(fresh_, {}))
    add_transfers(slot);
}

void record_store::add_transfers(std::uint32_t slot) {
  auto& op = writes_[slot];
  PEERCACHE_ASSERT(op.transfers == 0 && op.header == nullptr); // Transfers of a write begin once.
  op.record.page.written_s = unix_s_;
  auto header =
      header_of(op.record.page, options_.owner, op.record.sequence, page_offset(op.record));
  op.header = headers_.take(header);
  op.transfers =
      add_page_write(requests_, {op.file, record_offset(op.record)}, op.header, op.request, slot);
  ++transferring_;
}

void record_store::on_transfer(std::uint32_t slot, int error_number) {
  auto& op = writes_[slot];
  PEERCACHE_ASSERT(op.transfers != 0);
  if (op.error == 0)
    op.error = error_number;
  if (--op.transfers != 0)
    return;
  PEERCACHE_ASSERT(transferring_ > 0);
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
  written_bytes_ += op.request.length_bytes;
}

bool record_store::sync_due() const noexcept {
  if (written_.empty() || syncing())
    return false;
  const bool nobody_else = transferring_ == 0;
  const bool enough = written_bytes_ >= sync_bytes || written_.size() >= sync_pages_;
  const bool late = now_ >= written_since_ + options_.sync_after;
  return nobody_else || enough || late || crowded_ || closed_;
}

record_store::slots record_store::take_written() {
  written_bytes_ = 0;
  crowded_ = false;
  return std::exchange(written_, {});
}

void record_store::sort_by_age(slots& writes) {
  std::sort(writes.begin(), writes.end(), [this](std::uint32_t a, std::uint32_t b) {
    return writes_[a].record.sequence < writes_[b].record.sequence;
  });
}

record_store::write_op record_store::end_write(std::uint32_t slot, disk_status status) {
  const auto op = writes_.take(slot);
  tell(disk_event::kind::written, status, op.request.tag, op.request.key);
  return op;
}

record_store::slots record_store::take_unfinished() {
  slots left;
  writes_.for_each([&](std::uint32_t slot, const write_op&) { left.push_back(slot); });
  fresh_.clear();
  written_.clear();
  return left;
}

// Functions for reads.

const record_store::entry* record_store::readable(const disk_read& page) {
  const auto* found = closed_ ? nullptr : table_.find(page.key);
  if (found == nullptr)
    tell(disk_event::kind::read, closed_ ? disk_status::refused : disk_status::not_found, page.tag,
         page.key);
  return found;
}

void record_store::start_read(const disk_read& page, const entry& record, disk_file file) {
  reads_.start({page, record, file}, page_offset(record));
  if (options_.lru && page.counts)
    table_.touch(page.key);
}

void record_store::on_read(std::uint32_t slot, int error_number) {
  const auto read = reads_.finish(slot);
  const auto status = judge(read, error_number);
  if (status == disk_status::corrupt) {
    ++corrupt_;
    forget(read.record);
  }
  tell(disk_event::kind::read, status, read.request.tag, read.request.key);
}

disk_status record_store::judge(const read_op& read, int error_number) {
  return read_status(read.record.page, read.request.memory, error_number);
}

// Functions for completions, closing, events and statistics.

void record_store::on_completion(const disk_completion& done) {
  requests_.finished();
  on_request(done.tag, done.error);
}

void record_store::on_request(std::uint64_t tag, int error_number) {
  const auto slot = slot_of(tag);
  switch (part_of(tag)) {
  case request_part::header:
  case request_part::page:
    on_transfer(slot, error_number);
    break;
  case request_part::sync:
    on_sync(slot, error_number);
    break;
  case request_part::folder:
    on_folder_sync(slot, error_number);
    break;
  case request_part::read:
    on_read(slot, error_number);
    break;
  }
}

void record_store::close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) {
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
  PEERCACHE_ASSERT(writes_.empty() && reads_.empty()); // Each write and each read has its event.
  hand_out(events);
}

void record_store::tell(disk_event::kind what, disk_status status, std::uint64_t tag,
                        const page_key& key) {
  events_.push_back({what, status, tag, key});
}

void record_store::hand_out(std::vector<disk_event>& events) {
  events.insert(events.end(), events_.begin(), events_.end());
  events_.clear();
}

disk_store_stats record_store::counted() const {
  disk_store_stats now;
  now.page_bytes = table_.index().page_bytes();
  now.pages = table_.index().size();
  now.syncs = syncs_;
  now.corrupt = corrupt_;
  return now;
}

} // namespace peercache::storage
