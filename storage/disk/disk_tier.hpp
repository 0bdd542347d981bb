#pragma once

#include "common/circuit_breaker.hpp"
#include "storage/disk/disk_store.hpp"

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::storage {

struct disk_tier_options {
  std::uint64_t size_bytes = 100ull << 30; ///< The store's `size_bytes`.
  double high_watermark = 0.95;            ///< Share of size_bytes above which pages are evicted.
  double low_watermark = 0.90;             ///< Share of size_bytes at which eviction stops.
  std::chrono::seconds ttl{0};             ///< 0: no page grows too old.
  /// Limit of writes that are not done, those on the device included.
  std::uint64_t queue_bytes = 1ull << 30;
  /// Limit of writes in the store at a time: on the device, or waiting for the syncs that make many
  /// of them durable together.
  std::uint64_t writing_bytes = 256ull << 20;
  std::uint64_t scrub_bytes_per_s = 16ull << 20; ///< 0: no scrub.
  /// After this time the room of pages that are gone is given back, whether the directory has
  /// answered or not: a reader of a stale record misses.
  std::chrono::milliseconds acknowledge_at_most{2000};
  /// How long a full device is left alone.
  std::chrono::milliseconds full_pause{500};
  circuit_breaker::options breaker{10, std::chrono::seconds(1), std::chrono::seconds(10)};
};

/// Why a page is not written; the words are labels of a metric.
enum class write_skip : std::uint8_t {
  none, ///< The page is queued.
  queue_full,
  breaker_open, ///< Writes failed again and again.
  read_only,    ///< The device is full.
  on_disk,      ///< The page is there already, or on its way.
  closed,
  evicted ///< A set needed its memory at once.
};
inline constexpr std::size_t write_skips = 7;
std::string_view to_string(write_skip why) noexcept;

struct disk_tier_stats {
  disk_store_stats store;
  std::uint64_t queue_bytes = 0;
  std::uint64_t queue_pages = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t write_errors = 0;
  std::array<std::uint64_t, write_skips> skipped{}; ///< By `write_skip`.
  std::uint64_t reads = 0;                          ///< Reads that brought their page.
  std::uint64_t read_bytes = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t checksum_failures = 0;
  std::uint64_t evicted = 0;
  std::uint64_t expired = 0;
  std::uint64_t scrubbed_bytes = 0;
  std::uint64_t breaker_opened = 0;
  /// The breaker of writes, or that of reads when writes are well.
  circuit_breaker::state breaker = circuit_breaker::state::closed;
  std::uint64_t no_space_errors = 0; ///< Writes that the device had no room for.
  bool read_only = false;            ///< The device was full, and no write has ended well since.
};

/// The events of a poll.
struct disk_tier_events {
  std::vector<disk_event> done; ///< Writes and reads that were taken.
  /// Pages that left the disk. Those with a ticket give their room back when `acknowledge` says
  /// that the directory knows, or after `acknowledge_at_most`.
  std::vector<disk_eviction> gone;

  bool empty() const noexcept { return done.empty() && gone.empty(); }
};

/// The disk of one node: a store with a bounded queue before it, a limit on its size, breakers and
/// a scrub. Writes and reads are judged apart: a device that takes no more writes, because it is
/// full or was remounted read-only, is still read.
///
/// Threads: one owner. Time comes as an argument. Ownership: of the store; memory of a write or a
/// read is the disk's from `write` or `read` until its event. Errors: statuses of events.
/// Invariants: (1) writes that are not done hold at most `queue_bytes`; pages that do not fit are
/// skipped and counted; (2) each write that was queued and each read has exactly one event.
class disk_tier {
public:
  disk_tier(std::unique_ptr<disk_store> store, const disk_tier_options& options);
  ~disk_tier();

  /// Recovers as disk_store::recover does.
  result<recovery_report> recover(const recovery_options& how,
                                  const std::function<void(const disk_page&)>& found);

  /// Queues the page, or says why not: then there is no event.
  write_skip write(const disk_write& page, disk_clock::time_point now);
  /// Reads go before writes that have not started.
  void read(const disk_read& page, disk_clock::time_point now);

  /// The page of this key, when it is durable and not too old; else null.
  const disk_page* find(const page_key& key) const { return store_->find(key); }
  /// The page is forgotten at once; a write of it that is on its way is too. False when it was not
  /// there.
  bool erase(const page_key& key);
  /// Evicts until `bytes` of the tier are free, from the next poll on, but at most as many pages as
  /// there are now: headers and holes are not freed by evicting, and new pages may come as fast as
  /// old ones go.
  void make_room(std::uint64_t bytes) {
    wanted_free_bytes_ = bytes;
    wanted_pages_ = store_->stats().pages;
  }
  /// The directory knows that these pages are gone.
  void acknowledge(std::uint64_t ticket);
  /// Reads all pages once, as fast as the device goes, beside other work.
  void verify_now() noexcept {
    verifying_ = true;
    scrub_at_ = 0; // From the first page on.
  }
  bool verifying() const noexcept { return verifying_; }
  /// The device is full: nothing is written for a while.
  bool read_only() const noexcept { return now_ < full_until_; }

  /// Completions of one reap. The device gets new work before the old is looked at.
  void on_completions(disk_io& io, std::span<const disk_completion> done);
  void poll(disk_clock::time_point now, std::uint64_t unix_s, disk_tier_events& events);
  disk_clock::time_point next_due() const;
  /// Closes as disk_store::close does; queued writes end as `refused`.
  void close(std::chrono::nanoseconds at_most, disk_tier_events& events);

  disk_tier_stats stats() const;
  const disk_store& store() const noexcept { return *store_; }

private:
  struct writing {
    std::uint64_t bytes = 0;
    bool started = false;
    bool forgotten = false; ///< Erased meanwhile.
  };
  /// A page that the scrub reads, into memory of its own.
  struct scrubbed {
    struct free_deleter {
      void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, free_deleter> memory;
    disk_page page;
  };

  void start_reads();
  void start_writes();
  void settle(const disk_event& event, disk_tier_events& events);
  void settle_write(const disk_event& event, disk_tier_events& events);
  void settle_read(const disk_event& event, disk_tier_events& events);
  void settle_scrub(disk_status status);
  void judge(const disk_event& event) noexcept;
  void lost(const disk_page& page, disk_tier_events& events);
  void evict(disk_tier_events& events);
  void expire_tickets();
  void scrub(disk_tier_events& events);
  bool start_scrub(const disk_page& page);
  std::optional<disk_page> next_to_scrub(disk_tier_events& events);
  bool too_old(const disk_page& page) const noexcept;

  std::unique_ptr<disk_store> store_;
  const disk_tier_options options_;
  disk_clock::time_point now_{};
  std::uint64_t unix_s_ = 0;

  std::deque<disk_write> queue_;
  std::unordered_map<page_key, writing> writes_; ///< Writes that are queued or on the device.
  std::uint64_t not_done_bytes_ = 0;
  std::uint64_t on_device_bytes_ = 0;
  std::deque<disk_read> reads_;   ///< Reads that the store had no room for yet.
  std::vector<disk_event> early_; ///< Events that need no device.
  std::vector<disk_event> from_store_;

  struct waiting_ticket {
    std::uint64_t ticket = 0;
    disk_clock::time_point at_most;
  };
  std::deque<waiting_ticket> tickets_;
  std::uint64_t wanted_free_bytes_ = 0;
  std::uint64_t wanted_pages_ = 0; ///< Pages that may still be evicted for `wanted_free_bytes_`.

  std::uint64_t scrub_at_ = 0; ///< The place where the scrub's walk goes on.
  std::optional<scrubbed> scrubbing_;
  disk_clock::time_point scrub_next_{};
  bool verifying_ = false;

  circuit_breaker write_breaker_;
  circuit_breaker read_breaker_;
  disk_clock::time_point full_until_{};
  bool closed_ = false;
  disk_tier_stats stats_;
};

} // namespace peercache::storage
