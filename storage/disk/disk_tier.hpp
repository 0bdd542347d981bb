#pragma once

#include "common/circuit_breaker.hpp"
#include "storage/disk/disk_store.hpp"

#include <array>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

namespace peercache::storage {

struct disk_tier_options {
  std::uint64_t size_bytes = 100ull << 30;
  double high_watermark = 0.95;                ///< Of size_bytes: from here on pages are evicted,
  double low_watermark = 0.90;                 ///< down to here.
  std::chrono::seconds ttl{0};                 ///< 0: pages do not grow too old.
  std::uint64_t queue_bytes = 1ull << 30;      ///< Of writes that have not started.
  std::uint64_t writing_bytes = 64ull << 20;   ///< Of writes on the device at a time.
  std::uint64_t scrub_bytes_per_s = 16u << 20; ///< 0: no scrub.
  circuit_breaker::options breaker{10, std::chrono::seconds(1), std::chrono::seconds(10)};
};

/// Why a page is not written; the words are labels of a metric.
enum class write_skip : std::uint8_t {
  none, ///< It is queued.
  queue_full,
  breaker_open, ///< The device failed again and again.
  no_space,     ///< The device is full; only reads go on.
  on_disk,      ///< The page is there already, or on its way.
  closed
};
inline constexpr std::size_t write_skips = 6;
std::string_view to_string(write_skip why) noexcept;

struct disk_tier_stats {
  disk_store_stats store;
  std::uint64_t queue_bytes = 0;
  std::uint64_t queue_pages = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t write_errors = 0;
  std::array<std::uint64_t, write_skips> skipped{};
  std::uint64_t reads = 0; ///< That brought the page.
  std::uint64_t read_bytes = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t checksum_failures = 0;
  std::uint64_t evicted = 0;
  std::uint64_t expired = 0;
  std::uint64_t scrubbed_bytes = 0;
  circuit_breaker::state breaker = circuit_breaker::state::closed;
  std::uint64_t breaker_opened = 0;
  bool read_only = false;
};

/// What a poll tells its caller.
struct disk_tier_events {
  std::vector<disk_event> done; ///< Writes and reads that were taken.
  /// Pages that left the disk. Those with a ticket give their room back when `acknowledge` says
  /// that the directory knows, or after `acknowledge_at_most`.
  std::vector<disk_eviction> gone;
};

/// The disk of one node: a store with a bounded queue before it, a limit on its size, a breaker and
/// a scrub.
///
/// Threads: one owner. Time comes as an argument. Ownership: of the store; memory of a write or a
/// read is the disk's from `write` or `read` until its event. Errors: statuses of events.
/// Invariants: (1) the queue holds at most `queue_bytes`; what does not fit is skipped and counted;
/// (2) each write that was queued and each read has exactly one event.
class disk_tier {
public:
  disk_tier(std::unique_ptr<disk_store> store, const disk_tier_options& options);

  /// As disk_store::recover.
  result<recovery_report> recover(const recovery_options& how,
                                  const std::function<void(const disk_page&)>& found);

  /// Queues the page, or says why not.
  write_skip write(const disk_write& page, disk_clock::time_point now);
  /// An event follows. Reads go before writes that have not started.
  void read(const disk_read& page);

  const disk_page* find(const page_key& key) const { return store_->find(key); }
  /// The page is forgotten at once, and not written when it is queued.
  bool erase(const page_key& key);
  /// Pages are evicted until `bytes` of the tier are free.
  void evict(std::uint64_t bytes);
  /// The directory knows that these pages are gone.
  void acknowledge(std::uint64_t ticket);

  void on_completion(const disk_completion& done);
  void poll(disk_clock::time_point now, std::uint64_t unix_s, disk_tier_events& events);
  disk_clock::time_point next_due() const;
  /// As disk_store::close; what is queued ends as `refused`.
  void close(std::chrono::nanoseconds at_most, disk_tier_events& events);

  disk_tier_stats stats() const;
  disk_store& store() noexcept { return *store_; }

private:
  std::unique_ptr<disk_store> store_;
  disk_tier_options options_;
};

} // namespace peercache::storage
