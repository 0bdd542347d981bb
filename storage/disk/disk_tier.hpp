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
  std::uint64_t size_bytes = 100ull << 30; ///< The most bytes that the store's files may take.
  double high_watermark = 0.95;            ///< Share of size_bytes above which pages are evicted.
  double low_watermark = 0.90;             ///< Share of size_bytes at which eviction stops.
  std::chrono::seconds ttl{0};             ///< How old a page may grow; 0: no page is ever too old.
  /// The most bytes of writes that have no event yet, whether queued or on the device.
  std::uint64_t queue_bytes = 1ull << 30;
  /// The most bytes of writes in the store at a time: on the device, or waiting for a sync that
  /// makes many of them durable together.
  std::uint64_t writing_bytes = 256ull << 20;
  /// How fast the scrub reads; 0: the scrub reads only after `verify_now`.
  std::uint64_t scrub_bytes_per_s = 16ull << 20;
  /// How long an eviction waits for `acknowledge`. After this time the room of its pages is given
  /// back even if the directory has not answered: a reader of a stale directory record misses.
  std::chrono::milliseconds acknowledge_at_most{2000};
  /// How long no write is tried after the device was full.
  std::chrono::milliseconds full_pause{500};
  circuit_breaker::options breaker{10, std::chrono::seconds(1), std::chrono::seconds(10)};
};

/// Why a page is not written; the words are labels of a metric.
enum class write_skip : std::uint8_t {
  none,         ///< There is no reason: the page is queued for writing.
  queue_full,   ///< Other pages that wait to be written leave no room in the queue.
  breaker_open, ///< The breaker of writes is open: writes failed again and again.
  paused,       ///< No write is tried for now: the device was full a moment ago.
  on_disk,      ///< The page is on disk already, or a write of the same bytes is on its way.
  closed,
  evicted, ///< The pool evicted the page before it was written: a set needed its memory at once.
  /// A write of the key is on its way that will not leave this page on disk: the page that is
  /// written is another one, or was erased meanwhile.
  other_on_way,
  /// The tier is as large as it may be, and what it gave up for new pages has not left it yet.
  no_room
};
inline constexpr std::size_t write_skips = 9;
std::string_view to_string(write_skip why) noexcept;

struct disk_tier_stats {
  disk_store_stats store;
  std::uint64_t queue_bytes = 0;
  std::uint64_t queue_pages = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t write_errors = 0;
  /// Pages that were not written, counted by reason (`write_skip`).
  std::array<std::uint64_t, write_skips> skipped{};
  std::uint64_t reads = 0; ///< Reads that ended with `ok`.
  std::uint64_t read_bytes = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t checksum_failures = 0;
  std::uint64_t evicted = 0;
  std::uint64_t expired = 0;
  std::uint64_t scrubbed_bytes = 0;
  std::uint64_t breaker_opened = 0;
  /// The state of the breaker of writes, or of the breaker of reads when that of writes is closed.
  circuit_breaker::state breaker = circuit_breaker::state::closed;
  std::uint64_t no_space_errors = 0; ///< Writes that failed because the device had no room.
  bool full = false;                 ///< The device was full, and no write has ended well since.
};

/// What a poll of the disk tier has to report.
struct disk_tier_events {
  std::vector<disk_event> done; ///< The events of writes and reads that have ended.
  /// Pages that left the disk. An eviction with a ticket gives the room of its pages back when
  /// `acknowledge` says that the directory knows, or after `acknowledge_at_most`.
  std::vector<disk_eviction> gone;

  bool empty() const noexcept { return done.empty() && gone.empty(); }
};

/// The disk of one node: a store with a bounded queue before it, a limit on its size, breakers and
/// a scrub. Writes and reads are judged apart: a device that takes no more writes, because it is
/// full or was remounted read-only, is still read.
///
/// Threads: one owner. Time comes as an argument. Ownership: owns the store; memory of a write or a
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

  /// Queues the page for writing; or says why not, and then the write has no event.
  write_skip write(const disk_write& page, disk_clock::time_point now);
  /// Reads a page. Reads start before queued writes.
  void read(const disk_read& page, disk_clock::time_point now);

  /// The durable page of this key; null when there is none. The page may be older than `ttl`, and
  /// then a read answers `not_found`.
  const disk_page* find(const page_key& key) const { return store_->find(key); }
  /// Forgets the page of this key at once, and a write of the key that is on its way ends as
  /// `refused`. False when there was neither.
  bool erase(const page_key& key);
  /// Evicts from the next poll on until `bytes` of the tier are free, but at most as many pages as
  /// there are now: evicting does not free headers and holes, and new pages may come as fast as old
  /// ones go.
  void make_room(std::uint64_t bytes) {
    wanted_free_bytes_ = bytes;
    wanted_pages_ = store_->stats().pages;
  }
  /// Tells the tier that the directory knows that the pages of this eviction are gone.
  void acknowledge(std::uint64_t ticket);
  /// Makes the scrub read all pages once, as fast as the device goes, beside other work.
  void verify_now() noexcept {
    verifying_ = true;
    scrub_at_ = 0; // The walk of the scrub starts over at the first page.
  }
  bool verifying() const noexcept { return verifying_; }
  /// Whether writing pauses because the device was full.
  bool pauses() const noexcept { return now_ < full_until_; }

  /// Takes the completions of one reap. The device gets new requests before the completions are
  /// looked at.
  void on_completions(disk_io& io, std::span<const disk_completion> done);
  void poll(disk_clock::time_point now, std::uint64_t unix_s, disk_tier_events& events);
  disk_clock::time_point next_due() const;
  /// Closes as disk_store::close does; queued writes end as `refused`.
  void close(std::chrono::nanoseconds at_most, disk_tier_events& events);

  disk_tier_stats stats() const;
  const disk_store& store() const noexcept { return *store_; }

private:
  struct writing {
    std::uint64_t bytes = 0; ///< The page's length in whole blocks.
    std::uint64_t checksum = 0;
    std::uint32_t length_bytes = 0;
    bool started = false;
    /// The page was erased after its write was taken: the write will end as `refused`.
    bool forgotten = false;
  };
  /// The tag of the scrub's reads. No caller's read has this tag.
  static constexpr std::uint64_t scrub_tag = UINT64_MAX;
  /// A page that the scrub reads into memory of its own.
  struct scrubbed {
    struct free_deleter {
      void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, free_deleter> memory;
    disk_page page;
  };

  write_skip skip_of(const disk_write& page, disk_clock::time_point now);
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
  /// Writes that are queued or on the device, by key.
  std::unordered_map<page_key, writing> writes_;
  std::uint64_t not_done_bytes_ = 0;
  std::uint64_t on_device_bytes_ = 0;
  /// Reads that the store has not taken yet, because it had no room for them.
  std::deque<disk_read> reads_;
  /// Events of requests that ended before the store took them.
  std::vector<disk_event> early_;
  std::vector<disk_event> from_store_;

  struct waiting_ticket {
    std::uint64_t ticket = 0;
    disk_clock::time_point at_most;
  };
  std::deque<waiting_ticket> tickets_;
  std::uint64_t wanted_free_bytes_ = 0;
  std::uint64_t wanted_pages_ = 0; ///< Pages that may still be evicted for `wanted_free_bytes_`.

  /// The place in the store's walk at which the scrub goes on; 0: the start.
  std::uint64_t scrub_at_ = 0;
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
