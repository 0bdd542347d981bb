// How an offset_store starts: it opens its file, reads its index and adopts the records.

#include "common/log.hpp"
#include "storage/disk/offset/offset_store.hpp"
#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace peercache::storage {
namespace {

constexpr std::size_t headers_per_batch = 4096;
constexpr std::size_t recovered_per_progress = 65536;

} // namespace

result<recovery_report> offset_store::recover(const recovery_options& options,
                                              const std::function<void(const disk_page&)>& found) {
  const auto made = open_file();
  if (!made)
    return made.error();
  offset_scan_result scanned;
  bool rebuilt = *made;
  if (*made) {
    if (auto cleared = places_->clear(); !cleared)
      return cleared.error();
  } else {
    auto looked = look(options, rebuilt);
    if (!looked)
      return looked.error();
    scanned = std::move(*looked);
  }
  if (auto kept = remember(scanned, rebuilt); !kept)
    return kept.error();
  adopt(scanned, options, found);
  return scanned.report;
}

/// Opens the pages' file and fits it to the configured size, or makes one; then makes it durable
/// and counts its blocks. True: the file is new.
result<bool> offset_store::open_file() {
  const auto wanted_bytes = free_.blocks() * disk_block_bytes;
  if (wanted_bytes == 0)
    return {errc::invalid_argument, "the disk tier is too small for a file and its index"};
  auto file = io_.open(std::string(offset_file));
  const bool missing = !file && file.error().code == errc::not_found;
  if (!file && !missing)
    return file.error();
  if (file)
    file_ = *file;
  if (auto made = missing ? create_file(wanted_bytes) : fit_file(wanted_bytes); !made)
    return made.error();
  const auto bytes = io_.bytes_of(file_);
  if (!bytes)
    return bytes.error();
  free_ = soon_ = block_extents(*bytes / disk_block_bytes);
  if (auto synced = sync_file(); !synced)
    return synced.error();
  if (auto named = io_.sync_folder(""); !named)
    return named.error();
  return missing;
}

result<void> offset_store::create_file(std::uint64_t bytes) {
  const std::string name(offset_file);
  auto file = io_.create(name, bytes);
  if (!file && file.error().code == errc::out_of_space) {
    const auto space = io_.space();
    if (!space)
      return space.error();
    // One part in sixteen of the free bytes stays free: file systems need some room for themselves.
    const auto room = space->free_bytes / 16 * 15 / disk_block_bytes * disk_block_bytes;
    log::warn("disk: there is no room for {} bytes of pages, only for {}", bytes, room);
    file = room == 0 ? file : io_.create(name, room);
  }
  if (!file)
    return file.error();
  file_ = *file;
  return {};
}

/// Grows or shrinks the file when the configured size has changed; grows it only as far as the
/// device has room.
result<void> offset_store::fit_file(std::uint64_t bytes) {
  const auto now = io_.bytes_of(file_);
  const auto space = io_.space();
  if (!now || !space)
    return now ? space.error() : now.error();
  if (bytes > *now)
    bytes =
        std::min(bytes, (*now + space->free_bytes / 16 * 15) / disk_block_bytes * disk_block_bytes);
  return bytes == *now ? result<void>{} : io_.truncate(file_, bytes);
}

result<void> offset_store::sync_file() {
  disk_request request;
  request.what = disk_request::kind::sync;
  request.file = file_;
  request.tag = first_sync_tag;
  if (!io_.submit(request))
    return {errc::refused, "cannot sync the pages' file: the disk has no room for a request"};
  std::array<disk_completion, 1> done;
  const auto end = disk_clock::now() + options_.first_sync_at_most;
  while (io_.reap(done) == 0) {
    if (disk_clock::now() >= end)
      return {errc::timed_out, "the pages' file does not become durable"};
    io_.wait(std::chrono::seconds(1));
  }
  if (done[0].error != 0)
    return {status_of(done[0].error) == disk_status::no_space ? errc::out_of_space
                                                              : errc::io_failed,
            "cannot make the pages' file durable"};
  return {};
}

void offset_store::on_completion(const disk_completion& done) {
  // The first sync, when its end comes after the store has given up: it is none of `requests_`.
  if (done.tag != first_sync_tag)
    record_store::on_completion(done);
}

result<offset_scan_result> offset_store::look(const recovery_options& options, bool& rebuilt) {
  offset_scan scan(io_, free_.blocks(), options_.owner, options);
  auto indexed = scan.read_index(*places_);
  if (indexed && *indexed)
    return std::move(**indexed);
  rebuilt = true;
  log::warn("disk: the index of {} is {}: it is made again from the file, which takes a while",
            offset_file, indexed ? "not complete" : to_string(indexed.error()));
  if (auto cleared = places_->clear(); !cleared)
    return cleared.error();
  return scan.read_file();
}

/// Corrects the index, or fills it when it was lost (`rebuilt`), so that it says what the scan
/// found.
result<void> offset_store::remember(const offset_scan_result& scanned, bool rebuilt) {
  offset_index_batch batch;
  if (!rebuilt) {
    batch.removed = scanned.dropped;
  } else {
    for (const auto& record : scanned.records) {
      auto header = header_of(record.page, options_.owner, record.sequence, page_offset(record));
      seal(header);
      batch.put.push_back(header);
      if (batch.put.size() < headers_per_batch)
        continue;
      if (auto kept = places_->commit_now(batch); !kept)
        return kept;
      batch.put.clear();
    }
  }
  next_sequence_ = scanned.next_sequence;
  batch.next_sequence = next_sequence_ + sequence_margin;
  return places_->commit_now(batch);
}

void offset_store::adopt(const offset_scan_result& scanned, const recovery_options& options,
                         const std::function<void(const disk_page&)>& found) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  extents.reserve(scanned.records.size());
  for (const auto& record : scanned.records)
    extents.emplace_back(record.place, blocks_of(record.page));
  std::sort(extents.begin(), extents.end());
  extents.emplace_back(free_.blocks(), 0);
  std::uint64_t end = 0;
  for (const auto& [first, count] : extents) {
    if (first != end) {
      free_.free(end, first - end);
      soon_.free(end, first - end);
    }
    end = first + count;
  }
  std::size_t told = 0;
  for (const auto& record : scanned.records) {
    table_.insert(record);
    found(record.page);
    if (++told % recovered_per_progress == 0 && options.progress)
      options.progress(told,
                       static_cast<double>(told) / static_cast<double>(scanned.records.size()));
  }
  if (options.progress)
    options.progress(told, 1.0);
}

} // namespace peercache::storage
