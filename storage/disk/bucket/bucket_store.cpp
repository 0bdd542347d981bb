#include "storage/disk/bucket/bucket_store.hpp"

#include "common/assert.hpp"
#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

constexpr unsigned block_bits = 24;
static_assert(bucket_bytes_max / disk_block_bytes < 1ull << block_bits);
static_assert(bucket_id_max < 1ull << (64 - block_bits));

std::uint64_t place_of(std::uint64_t id, std::uint64_t offset_bytes) noexcept {
  return id << block_bits | offset_bytes / disk_block_bytes;
}

std::uint64_t bucket_of(std::uint64_t place) noexcept {
  return place >> block_bits;
}

std::uint64_t offset_of(std::uint64_t place) noexcept {
  return (place & ((1ull << block_bits) - 1)) * disk_block_bytes;
}

} // namespace

std::string_view bucket_store_files() noexcept {
  return bucket_folder;
}

std::unique_ptr<disk_store> make_bucket_store(disk_io& io, const disk_store_options& options) {
  return std::make_unique<bucket_store>(io, options);
}

bucket_store::bucket_store(disk_io& io, const disk_store_options& options)
    : io_(io), options_(options), files_(io, options.size_bytes), requests_(io),
      writer_(files_, requests_, options) {}

bucket_store::~bucket_store() {
  std::vector<disk_event> nobody_waits;
  if (!closed_)
    close(std::chrono::nanoseconds(0), nobody_waits);
}

// Functions that recover what an earlier process left.

result<recovery_report> bucket_store::recover(const recovery_options& options,
                                              const std::function<void(const disk_page&)>& found) {
  auto scans = scan_buckets(io_, options_.owner, options);
  if (!scans)
    return scans.error();
  recovery_report report;
  for (auto& scan : *scans) {
    adopt(scan, report);
    scan.records = {};
  }
  // A bucket that could not be read keeps its file, because a later start may read the file; such a
  // bucket is evicted by age like other buckets.
  for (const auto& scan : *scans)
    if (const auto there = files_.all().find(scan.id); scan.readable && there != files_.all().end())
      settle(*there->second);
  report.files = files_.all().size();
  report.pages = index_.size();
  index_.walk(0, UINT32_MAX, found);
  return report;
}

void bucket_store::adopt(const bucket_scan& found, recovery_report& report) {
  report.torn += found.torn;
  report.foreign += found.foreign;
  report.corrupt += found.corrupt;
  auto file_bytes = found.file_bytes;
  if (!found.sealed && found.readable && !found.records.empty() &&
      seal_found_bucket(io_, found, options_.owner))
    file_bytes = found.end_bytes + footer_bytes(found.records.size());
  auto& in = files_.adopt(found.id, file_bytes);
  in.end_bytes = found.end_bytes;
  for (const auto& record : found.records) {
    writer_.continue_after(record.sequence);
    const auto* known = index_.find(record.key);
    report.replaced += known != nullptr ? 1 : 0;
    insert(in, record);
  }
}

void bucket_store::insert(bucket& in, const record_header& record) {
  in.used = ++uses_;
  const auto* known = index_.find(record.key);
  if (known != nullptr && known->sequence > record.sequence)
    return;
  disk_index::entry made;
  made.page = page_of(record);
  made.place = place_of(in.id, record.offset_bytes);
  made.sequence = record.sequence;
  in.pages.push_back(record.key);
  ++in.live;
  if (const auto before = index_.insert(made))
    forget(*before);
}

// Functions for writes and reads.

bool bucket_store::write(const disk_write& page) {
  if (writer_.full())
    return false;
  const auto status = closed_ ? disk_status::refused : writer_.write(page);
  if (status != disk_status::ok)
    tell(disk_event::kind::written, status, page.tag, page.key);
  return true;
}

bool bucket_store::read(const disk_read& page) {
  if (requests_.reads() >= reads_max)
    return false;
  const auto* known = closed_ ? nullptr : index_.find(page.key);
  if (known == nullptr) {
    tell(disk_event::kind::read, closed_ ? disk_status::refused : disk_status::not_found, page.tag,
         page.key);
    return true;
  }
  auto& in = files_.at(bucket_of(known->place));
  if (!files_.open(in)) {
    tell(disk_event::kind::read, disk_status::io_failed, page.tag, page.key);
    return true;
  }
  if (page.counts)
    in.used = ++uses_;
  ++in.users;
  disk_request request;
  request.what = disk_request::kind::read;
  request.file = in.file;
  request.offset_bytes = offset_of(known->place);
  request.memory = page.memory;
  request.bytes = static_cast<std::uint32_t>(in_blocks(known->page.length_bytes));
  requests_.add({.what = bucket_operation::kind::read,
                 .in = &in,
                 .wanted = known->page,
                 .sequence = known->sequence,
                 .read = page},
                request);
  return true;
}

void bucket_store::on_completion(const disk_completion& done) {
  requests_.line().finished();
  on_request(done.tag, done.error);
}

void bucket_store::on_request(std::uint64_t tag, int error) {
  const auto operation = requests_.take(tag);
  if (operation.what == bucket_operation::kind::read)
    on_read(operation, error);
  else
    writer_.on_done(operation, error);
}

void bucket_store::on_read(const bucket_operation& done, int error) {
  const auto status = read_status(done.wanted, done.read.memory, error);
  if (status == disk_status::corrupt) {
    ++corrupt_;
    // The record is erased only if the index still names it: the key may have a newer record by
    // now.
    const auto* known = index_.find(done.wanted.key);
    if (known != nullptr && known->sequence == done.sequence)
      erase(done.wanted.key);
  }
  --done.in->users;
  settle(*done.in);
  tell(disk_event::kind::read, status, done.read.tag, done.wanted.key);
}

void bucket_store::tell(disk_event::kind what, disk_status status, std::uint64_t tag,
                        const page_key& key) {
  events_.push_back({what, status, tag, key});
}

void bucket_store::poll(disk_clock::time_point now, std::uint64_t unix_s,
                        std::vector<disk_event>& events) {
  now_ = now;
  unix_s_ = unix_s;
  writer_.poll(now, unix_s);
  take_outcomes();
  requests_.line().start();
  events.insert(events.end(), events_.begin(), events_.end());
  events_.clear();
}

void bucket_store::take_outcomes() {
  for (const auto& page : writer_.take_written()) {
    if (page.status == disk_status::ok)
      insert(*page.in, page.record);
    tell(disk_event::kind::written, page.status, page.write.tag, page.write.key);
  }
  for (auto* done : writer_.take_done())
    settle(*done);
}

disk_clock::time_point bucket_store::next_due() const {
  return events_.empty() ? writer_.next_due() : now_;
}

// Functions that erase and evict pages.

const disk_page* bucket_store::find(const page_key& key) const {
  const auto* known = index_.find(key);
  return known == nullptr ? nullptr : &known->page;
}

bool bucket_store::erase(const page_key& key) {
  const auto gone = index_.erase(key);
  if (gone)
    forget(*gone);
  return gone.has_value();
}

void bucket_store::forget(const disk_index::entry& gone) {
  auto& in = files_.at(bucket_of(gone.place));
  PEERCACHE_ASSERT(in.live != 0);
  --in.live;
  settle(in);
}

void bucket_store::settle(bucket& in) {
  if (in.at != bucket::phase::done || in.users != 0)
    return;
  if (!in.doomed && (in.live != 0 || in.ticket != 0))
    return;
  leaving_bytes_ -= in.doomed ? in.file_bytes : 0;
  files_.remove(in);
}

std::vector<bucket*> bucket_store::eviction_order() const {
  std::vector<bucket*> order;
  for (const auto& [id, bucket] : files_.all())
    if (bucket->at == bucket::phase::done && bucket->ticket == 0)
      order.push_back(bucket.get());
  if (options_.lru)
    std::stable_sort(order.begin(), order.end(),
                     [](const bucket* a, const bucket* b) { return a->used < b->used; });
  return order;
}

disk_eviction bucket_store::begin_eviction(std::uint64_t bytes) {
  disk_eviction eviction;
  std::uint64_t freed = 0;
  for (auto* in : eviction_order()) {
    if (freed >= bytes)
      break;
    if (eviction.ticket == 0)
      eviction.ticket = ++tickets_;
    in->ticket = eviction.ticket;
    freed += in->file_bytes;
    leaving_bytes_ += in->file_bytes;
    evictions_[eviction.ticket].push_back(in);
    for (const auto& key : in->pages) {
      const auto* known = index_.find(key);
      if (known == nullptr || bucket_of(known->place) != in->id)
        continue;
      eviction.pages.push_back(known->page);
      index_.erase(key);
      --in->live;
    }
  }
  return eviction;
}

void bucket_store::finish_eviction(std::uint64_t ticket) {
  const auto found = evictions_.find(ticket);
  if (found == evictions_.end())
    return;
  const auto evicted = std::move(found->second);
  evictions_.erase(found);
  for (auto* in : evicted) {
    in->doomed = true;
    settle(*in);
  }
}

std::uint64_t bucket_store::walk(std::uint64_t after, std::uint32_t count,
                                 const std::function<void(const disk_page&)>& visit) const {
  return index_.walk(after, count, visit);
}

// Functions that close the store, and its statistics.

void bucket_store::close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) {
  closed_ = true;
  const auto take = [this](const disk_completion& done) { on_completion(done); };
  const auto until = disk_clock::now() + at_most;
  writer_.seal_all();
  for (auto now = disk_clock::now(); now < until; now = disk_clock::now()) {
    poll(now_, unix_s_, events);
    if (requests_.size() == 0 && writer_.idle())
      break;
    io_.wait(until - now);
    requests_.line().take_completions(take);
  }
  requests_.line().end(take, [this](std::uint64_t tag, int error) { on_request(tag, error); });
  PEERCACHE_ASSERT(requests_.size() == 0); // Each request has completed or was cancelled.
  writer_.give_up();
  poll(now_, unix_s_, events);
}

disk_store_stats bucket_store::stats() const {
  disk_store_stats stats;
  stats.used_bytes = files_.used_bytes();
  stats.leaving_bytes = leaving_bytes_ + files_.leftover_bytes();
  stats.page_bytes = index_.page_bytes();
  stats.pages = index_.size();
  stats.files = files_.all().size();
  stats.syncs = writer_.syncs();
  stats.corrupt = corrupt_;
  return stats;
}

} // namespace peercache::storage
