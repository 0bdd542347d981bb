#include "storage/disk/bucket/bucket_recovery.hpp"

#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

namespace peercache::storage {
namespace {

constexpr auto forever = std::chrono::hours(1);

/// Scans the buckets in several threads and reports how far the scan is.
class parallel_scan {
public:
  parallel_scan(const disk_io& io, const record_owner& owner, const recovery_options& options,
                std::vector<bucket_scan>& found)
      : io_(io), owner_(owner), options_(options), found_(found) {
    for (const auto& one : found)
      total_bytes_ += one.file_bytes;
  }

  void run() {
    const auto wanted = std::min<std::size_t>(std::max(1u, options_.threads), found_.size());
    run_in_threads(static_cast<std::uint32_t>(wanted), [this](std::uint32_t) { scan(); });
  }

private:
  void scan() {
    for (auto i = next_++; i < found_.size(); i = next_++) {
      auto& one = found_[i];
      one = scan_bucket(io_, one.id, one.file_bytes, owner_, options_.verify);
      report(one);
    }
  }

  void report(const bucket_scan& done) {
    const std::lock_guard lock(mutex_);
    pages_ += done.records.size();
    done_bytes_ += done.file_bytes;
    if (options_.progress)
      options_.progress(pages_, total_bytes_ == 0 ? 1.0
                                                  : static_cast<double>(done_bytes_) /
                                                        static_cast<double>(total_bytes_));
  }

  const disk_io& io_;
  const record_owner& owner_;
  const recovery_options& options_;
  std::vector<bucket_scan>& found_;
  std::uint64_t total_bytes_ = 0;
  std::atomic<std::size_t> next_ = 0;
  /// Guards the numbers that `progress` is told; the threads share nothing else but `next_`.
  std::mutex mutex_;
  std::uint64_t pages_ = 0;
  std::uint64_t done_bytes_ = 0;
};

bool transfer(disk_io& io, const disk_request& request) {
  if (!io.submit(request))
    return false;
  disk_completion done;
  while (io.reap({&done, 1}) == 0)
    io.wait(forever);
  return done.error == 0;
}

} // namespace

result<std::vector<bucket_scan>> scan_buckets(disk_io& io, const record_owner& owner,
                                              const recovery_options& options) {
  const std::string folder(bucket_folder);
  if (auto made = io.make_folder(folder); !made)
    return made.error();
  if (auto synced = io.sync_folder(""); !synced)
    return synced.error();
  auto entries = io.list(folder);
  if (!entries)
    return entries.error();
  std::vector<bucket_scan> found;
  for (const auto& entry : *entries) {
    const auto id = entry.folder ? std::nullopt : parse_bucket_name(entry.name);
    if (!id)
      continue;
    found.emplace_back();
    found.back().id = *id;
    found.back().file_bytes = entry.bytes;
  }
  std::sort(found.begin(), found.end(),
            [](const bucket_scan& a, const bucket_scan& b) { return a.id < b.id; });
  parallel_scan(io, owner, options, found).run();
  return found;
}

bool seal_found_bucket(disk_io& io, const bucket_scan& found, const record_owner& owner) {
  auto file = io.open(bucket_path(found.id));
  if (!file)
    return false;
  const auto bytes = footer_bytes(found.records.size());
  const auto footer = make_footer(found.id, owner, found.records, found.end_bytes);
  disk_request request;
  request.what = disk_request::kind::write;
  request.file = *file;
  request.offset_bytes = found.end_bytes;
  request.memory = footer.get();
  request.bytes = static_cast<std::uint32_t>(bytes);
  disk_request sync;
  sync.what = disk_request::kind::sync;
  sync.file = *file;
  // The first sync makes the pages durable before the footer is written, because a footer says that
  // the pages of its bucket are durable.
  const bool sealed = transfer(io, sync) && transfer(io, request) &&
                      io.truncate(*file, found.end_bytes + bytes) && transfer(io, sync);
  io.close(*file);
  return sealed;
}

} // namespace peercache::storage
