#pragma once

#include "actors/clearing/cleared_spaces.hpp"
#include "actors/disk/disk_incidents.hpp"
#include "actors/link_names.hpp"
#include "config/node_config.hpp"
#include "discovery/membership.hpp"
#include "link/protocol/disk.hpp"
#include "link/protocol/disk_wire.hpp"
#include "metrics/latency_histogram.hpp"
#include "storage/disk/disk_tier.hpp"
#include "storage/disk/folder_claim.hpp"
#include "storage/pool_memory.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace peercache::actors {

/// Bounds the bytes of the pool that wait for the disk; shared by the pool and the disk's thread.
/// Threads: any.
class disk_gate {
public:
  explicit disk_gate(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// Claims room for a page of this many bytes. Returns false, and counts the refusal, when there
  /// is no room or the disk takes nothing. A page that is larger than all of the room is let in
  /// when no other page waits, because it would never be written otherwise.
  bool enter(std::uint64_t bytes) noexcept;
  /// Whether a page that nobody waits to see on disk may be queued: the disk takes pages, and all
  /// but one of `parts` parts of the room stay free, or no other page waits.
  bool has_room(std::uint64_t bytes, std::uint64_t parts) const noexcept {
    const auto waiting = this->bytes();
    return open() && (waiting == 0 || bytes + waiting <= bytes_max_ / parts);
  }
  /// Counts a page that is not written for this reason and for which `enter` was not called.
  void count_skip(storage::write_skip why) noexcept {
    skipped_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
  /// Gives back what was claimed for a page. @pre `enter` claimed these bytes, and they were not
  /// given back yet
  void leave(std::uint64_t bytes) noexcept;
  void set_open(bool open) noexcept { open_.store(open, std::memory_order_relaxed); }
  bool open() const noexcept { return open_.load(std::memory_order_relaxed); }
  std::uint64_t skipped(storage::write_skip why) const noexcept {
    return skipped_[static_cast<std::size_t>(why)].load(std::memory_order_relaxed);
  }
  /// Bytes of the pages that wait for the disk or are being written.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

private:
  const std::uint64_t bytes_max_;
  std::atomic<std::uint64_t> bytes_{0};
  std::array<std::atomic<std::uint64_t>, storage::write_skips> skipped_{};
  std::atomic<bool> open_{false};
};

/// The disk tier's thread: owns device, store and index. Its actor sends it commands and is told
/// their outcomes.
///
/// Threads: `run` in one thread, once; all other members from any thread. Ownership: borrows the
/// pool's memory, which must outlive `run`. Errors: a folder that cannot be used makes a service
/// that is off, with the reason: the node goes on without a disk.
class disk_service {
public:
  using device_decorator =
      std::function<std::unique_ptr<storage::disk_io>(std::unique_ptr<storage::disk_io>)>;

  /// @param cleared takes in what the folder says of cleared spaces; null when nobody wants it
  /// @param decorate puts a test's device around the real one; may be empty
  static std::unique_ptr<disk_service> open(const config::node_config& config,
                                            const discovery::member& self,
                                            storage::pool_memory& memory,
                                            cleared_spaces* cleared = nullptr,
                                            const device_decorator& decorate = {});

  bool on() const noexcept { return tier_.has_value(); }
  disk_gate& gate() noexcept { return gate_; }
  /// Share of the start's scan that is done; 1: the scan is over.
  double scanned() const noexcept { return scanned_.load(std::memory_order_relaxed); }
  /// Returns the disk's numbers: at most a fifth of a second old, or older when the device holds
  /// the thread up; the bytes in the queue are current.
  metrics::samples samples() const;
  /// Returns the disk's state besides its numbers. Asked before `samples`, the state is no newer
  /// than the numbers are.
  disk_report report() const;

  /// Scans the disk, then carries out commands until `stop`; hands the events of each turn to
  /// `tell`.
  void run(const std::function<void(disk_turn_ptr)>& tell);
  /// Looks whether the disk's thread hangs in a call to the file system, and says so to the log.
  /// Call it from another thread, every second.
  void watch();
  void stop() noexcept;

  // Commands to the disk's thread, from any thread. A command with a request number is answered in
  // a later turn's `answers`.
  void write(std::string kept_pages);
  void load(std::uint64_t request, std::string wanted_pages);
  void walk(std::uint64_t request, std::uint64_t after, std::uint32_t count);
  void remove(std::uint64_t request, std::string keys);
  /// Keeps for the next process of this folder which spaces were cleared. The answer is empty once
  /// the bytes are durable, else the reason why they are not.
  void keep_cleared(std::uint64_t request, std::string encoded);
  /// Keeps the encoded cleared spaces at once, in the calling thread. Returns what the answer of
  /// `keep_cleared` would be. @pre `run` has come back
  std::string keep_cleared_at_end(const std::string& encoded) const;
  /// Returns why cleared spaces cannot be kept although pages may come back: the disk tier is
  /// wanted and off. Empty when they can be kept, or when no page can come back.
  std::string why_not_kept() const;
  /// Forgets, beside other work, pages that are older than the last clear of their space.
  void forget_old();
  void acknowledge(std::uint64_t ticket);
  /// Reads and checks the whole tier. The report says `verifying` from this call until the end.
  void verify();
  void make_room(std::uint64_t bytes);

private:
  using command = std::function<void()>;
  using time_point = storage::disk_clock::time_point;

  /// A page on its way to the disk, its slot pinned.
  struct keeping {
    kept_page page;
    time_point since;
  };
  struct loading {
    std::uint64_t request = 0;
    std::uint32_t index = 0;
    time_point since;
  };
  /// A `load` some of whose pages are not decided.
  struct open_load {
    std::vector<loaded_page> pages;
    std::size_t left = 0;
  };

  disk_service(const config::node_config& config, storage::pool_memory& memory);
  result<void> set_up(const config::node_config& config, const discovery::member& self,
                      cleared_spaces* cleared, const device_decorator& decorate);
  result<std::unique_ptr<storage::disk_store>> make_store(const config::node_config& config,
                                                          const discovery::member& self);
  void post(command what);
  void scan();
  /// Runs one turn of the loop: commands, completions, events. False when nothing moved.
  bool turn();
  bool may_rest() const;
  bool run_commands();
  void take(const storage::disk_tier_events& events);
  void written(const storage::disk_event& event);
  void was_read(const storage::disk_event& event);
  void finish_load(std::uint64_t request);
  void let_go(const kept_page& page);
  void tell_of_known();
  bool forget_some_old();
  void publish_report();
  void add_numbers(const storage::disk_tier_stats& stats, metrics::samples& to) const;
  void log_incidents(const storage::disk_tier_stats& stats);
  void shut_down();

  // The members from `config_` to `claim_` are constant after `open`, except `gate_`, which threads
  // share, and `why_off_`, which the disk's thread sets when its scan fails.
  const config::node_config::disk_section config_;
  storage::slot_table slots_;
  storage::pool_memory& memory_;
  const storage::epoch_table epochs_;
  bool wanted_ = false; ///< The configuration asks for a disk tier.
  std::string why_off_;
  std::string path_;
  std::string why_fallback_;
  disk_gate gate_;
  std::optional<storage::folder_claim> claim_;

  // The members from `io_` to `read_latency_` are used by the disk's thread only; any thread may
  // wake `io_` and ask whether there is a `tier_`.
  std::unique_ptr<storage::disk_io> io_;
  std::optional<storage::disk_tier> tier_;
  time_point now_{};
  time_point report_at_{};
  /// Whether the last turn did nothing, the thread `may_rest`, and the published report is up to
  /// date.
  bool rests_ = false;
  std::uint64_t next_tag_ = 1;
  std::unordered_map<std::uint64_t, keeping> keeping_;
  std::vector<kept_page> known_; ///< Pages that should be written and are on disk already.
  std::unordered_map<std::uint64_t, loading> loading_;
  std::unordered_map<std::uint64_t, open_load> loads_;
  disk_turn turn_;
  storage::recovery_report recovered_;
  std::uint64_t cleared_ = 0; ///< Pages forgotten because their space was cleared.
  /// Place where the walk of `forget_old` goes on; nothing: no walk.
  std::optional<std::uint64_t> forgetting_from_;
  int last_error_ = 0; ///< The errno of the last failed request on the device.
  /// The longest time of a write or read that ended since the last look for incidents.
  std::chrono::nanoseconds slowest_{};
  metrics::latency_histogram write_latency_;
  metrics::latency_histogram read_latency_;

  // The members below are shared between threads.
  std::atomic<bool> stop_{false};
  std::atomic<double> scanned_{0};
  std::atomic<bool> verify_asked_{false}; ///< `verify` was called and has not begun.
  /// When the disk's thread began its last turn, as a count of `disk_clock`; 0: the thread makes no
  /// turns.
  std::atomic<time_point::rep> turn_at_{0};
  mutable std::mutex lock_;
  std::vector<command> commands_; ///< Guarded by lock_.
  metrics::samples samples_;      ///< Guarded by lock_.
  disk_report report_;            ///< Guarded by lock_.
  disk_incidents incidents_{""};  ///< Guarded by lock_.
};

} // namespace peercache::actors
