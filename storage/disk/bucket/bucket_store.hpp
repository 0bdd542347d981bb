#pragma once

#include "storage/disk/bucket/bucket_files.hpp"
#include "storage/disk/bucket/bucket_recovery.hpp"
#include "storage/disk/bucket/bucket_requests.hpp"
#include "storage/disk/bucket/bucket_writer.hpp"
#include "storage/disk/disk_index.hpp"
#include "storage/disk/disk_store.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace peercache::storage {

/// Keeps pages one behind the other in large files, the buckets (see bucket_format.hpp). A bucket
/// is evicted as a whole: the oldest one, or with `lru` the one that nothing was written to or read
/// from for the longest time (reads that do not count are ignored). A bucket whose pages are all
/// gone is removed at once.
///
/// A page that was erased may be found again after a restart while its bucket's file exists. The
/// page's bytes are right; its user only no longer wanted the page.
class bucket_store final : public disk_store {
public:
  bucket_store(disk_io& io, const disk_store_options& options);
  /// Closes the store and waits for the requests that the device has begun.
  ~bucket_store() override;

  std::string_view name() const noexcept override { return "bucket"; }
  result<recovery_report> recover(const recovery_options& options,
                                  const std::function<void(const disk_page&)>& found) override;
  bool write(const disk_write& page) override;
  bool read(const disk_read& page) override;
  const disk_page* find(const page_key& key) const override;
  bool erase(const page_key& key) override;
  disk_eviction begin_eviction(std::uint64_t bytes) override;
  void finish_eviction(std::uint64_t ticket) override;
  std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                     const std::function<void(const disk_page&)>& visit) const override;
  void refill() override { requests_.line().start(); }
  void on_completion(const disk_completion& done) override;
  void poll(disk_clock::time_point now, std::uint64_t unix_s,
            std::vector<disk_event>& events) override;
  disk_clock::time_point next_due() const override;
  /// Closes the store as disk_store::close says. Waits for requests that the device has begun, even
  /// longer than `at_most`: their memory cannot be given back before.
  void close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) override;
  disk_store_stats stats() const override;

  static constexpr std::size_t reads_max = 1024;

private:
  void adopt(const bucket_scan& found, recovery_report& report);
  void insert(bucket& in, const record_header& record);
  void take_outcomes();
  void on_request(std::uint64_t tag, int error);
  void on_read(const bucket_operation& done, int error);
  /// Counts the page of an erased index entry out of its bucket; a bucket without pages that nobody
  /// uses is removed.
  void forget(const disk_index::entry& gone);
  void settle(bucket& in);
  std::vector<bucket*> eviction_order() const;
  void tell(disk_event::kind what, disk_status status, std::uint64_t tag, const page_key& key);

  disk_io& io_;
  const disk_store_options options_;
  bucket_files files_;
  bucket_requests requests_;
  bucket_writer writer_;
  disk_index index_;
  /// The buckets of each eviction that was begun and not finished, by ticket.
  std::map<std::uint64_t, std::vector<bucket*>> evictions_;
  std::uint64_t tickets_ = 0;
  /// Bytes of the files of evicted buckets that are not removed yet.
  std::uint64_t leaving_bytes_ = 0;
  std::uint64_t uses_ = 0;
  std::uint64_t corrupt_ = 0;
  std::uint64_t unix_s_ = 0;
  disk_clock::time_point now_{};
  bool closed_ = false;
  std::vector<disk_event> events_;
};

} // namespace peercache::storage
