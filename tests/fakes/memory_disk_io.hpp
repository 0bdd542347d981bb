#pragma once

#include "storage/disk/io/disk_io.hpp"
#include "storage/disk/io/requests_on_way.hpp"
#include "tests/fakes/memory_disk_faults.hpp"
#include "tests/fakes/memory_disk_names.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace peercache::storage {

struct memory_disk_options {
  std::uint64_t seed = 1;
  std::uint32_t queue_depth = 64;
  std::uint64_t capacity_bytes = 1ull << 40;
  /// Whether the seed decides the order in which requests that are due complete; otherwise they
  /// complete in the order of submission.
  bool reorder = true;
  /// Whether time is the computer's: then `wait` sleeps, and a delayed operation takes as long as
  /// its delay. Otherwise time moves only by `advance` and `wait`, and nothing sleeps.
  bool real_time = false;
};

/// A disk in memory for tests, with delays, faults and losses of power. The same seed gives the
/// same outcome, as long as one thread uses the disk.
///
/// A request starts and completes at a `reap`, at the earliest when its delay is over. When a write
/// completes, an assertion fails if the program has changed the write's bytes since `submit`. A
/// transfer that fails may have been done in part.
///
/// Power: programs see every completed operation, but durable is only what `disk_io` promises: a
/// file's bytes and length by `sync` of the file, names by `sync_folder` of their folder.
/// `after_power_cut` returns a disk with what a loss of power leaves.
///
/// Threads: as disk_io; methods that only tests call may be called by any thread.
class memory_disk_io final : public disk_io {
public:
  explicit memory_disk_io(const memory_disk_options& options = {});

  std::string_view name() const noexcept override { return "memory"; }
  result<disk_file> create(const std::string& file, std::uint64_t bytes) override;
  result<disk_file> open(const std::string& file) override;
  result<disk_file> open_folder(const std::string& folder) override;
  void close(disk_file file) override;
  result<void> truncate(disk_file file, std::uint64_t bytes) override;
  result<std::uint64_t> bytes_of(disk_file file) override;
  result<void> rename(const std::string& from, const std::string& to) override;
  result<void> remove(const std::string& file) override;
  result<void> make_folder(const std::string& folder) override;
  result<void> sync_folder(const std::string& folder) override;
  result<std::vector<disk_folder_entry>> list(const std::string& folder) const override;
  result<disk_space> space() const override;
  result<std::size_t> read_now(const std::string& file, std::uint64_t offset_bytes,
                               std::span<std::byte> into) const override;
  result<void> register_memory(std::span<std::byte> memory) override;
  bool submit(const disk_request& request) override;
  std::size_t reap(std::span<disk_completion> completions) override;
  void wait(std::chrono::nanoseconds at_most) override;
  void wake() noexcept override;
  std::uint32_t in_flight() const noexcept override;
  std::uint32_t queue_depth() const noexcept override { return options_.queue_depth; }

  // -- methods for the time of the disk

  /// Returns the time since the disk was made, by the disk's clock.
  std::chrono::nanoseconds now() const;
  /// Moves the simulated clock forward. @pre !real_time
  void advance(std::chrono::nanoseconds by);

  // -- methods that set faults of operations

  void fail_once(disk_operation what, std::uint64_t skip, int error_number);
  void fail_share(disk_operation what, double share, int error_number);
  void fail_all(int error_number);
  /// Returns whether each operation that was to fail once has failed.
  bool heal();
  void set_delay(disk_operation what, std::chrono::nanoseconds delay,
                 std::chrono::nanoseconds jitter = {});
  void set_short_transfers(double share);
  void set_capacity(std::uint64_t bytes);
  /// Makes the disk hang: no transfer and no sync completes until `set_hanging(false)`.
  void set_hanging(bool hangs);

  // -- methods for losses of power, and for the disk after them

  /// Returns how many operations have changed the disk so far: writes, syncs, and operations that
  /// change names or lengths.
  std::uint64_t operations() const;
  /// Takes the power away before the operation of this number (the first is 0): from then on no
  /// change reaches the disk, and every operation fails with EIO.
  void stop_at(std::uint64_t operation);
  bool stopped() const;
  /// Returns a disk with what a loss of power would leave now, or left when `stop_at` stopped this
  /// disk. The returned disk has the same options, and no faults.
  std::unique_ptr<memory_disk_io> after_power_cut(std::uint64_t seed,
                                                  survivors what = survivors::some) const;

  // -- methods for the contents of the disk, which ignore the faults that are set; @pre the files
  // exist

  /// Returns the full names of all files, sorted.
  std::vector<std::string> files() const;
  std::vector<std::byte> contents(const std::string& file) const;
  void overwrite(const std::string& file, std::uint64_t offset_bytes,
                 std::span<const std::byte> bytes);
  void flip_bit(const std::string& file, std::uint64_t offset_bytes, unsigned bit);
  /// Swaps the bytes of two ranges. @pre the ranges do not overlap
  void swap_ranges(const std::string& a, std::uint64_t offset_a, const std::string& b,
                   std::uint64_t offset_b, std::uint64_t bytes);
  void swap_files(const std::string& a, const std::string& b);

private:
  using file_ptr = memory_disk_names::file_ptr;

  struct flight {
    disk_request request;
    memory_disk_file::bytes_ptr bytes; ///< The bytes of a write as they were at `submit`.
    /// For a sync of a file: the sync covers changes with smaller numbers.
    std::uint64_t sync_before = 0;
    /// For a sync of a folder: the sync covers changes of names with smaller numbers.
    std::uint64_t names_before = 0;
    std::uint64_t number = 0;
    std::chrono::nanoseconds due{0};
    std::uint32_t done_bytes = 0;
  };

  int admit(disk_operation what, bool changes) const;
  void stop() const;
  void take_time(disk_operation what) const;
  result<void> change_names(disk_operation kind, const std::string& name, std::string_view doing,
                            const std::function<int()>& change);
  struct open_file {
    file_ptr file;
    std::optional<std::string> folder; ///< For an open folder: its name; nothing for a file.
    bool in_use() const noexcept { return file || folder; }
  };

  disk_file keep_open(open_file what);
  const open_file& open_of(disk_file file) const;
  const file_ptr& file_of(disk_file file) const;
  file_ptr named(const std::string& file) const;
  std::chrono::nanoseconds time() const;
  std::size_t pick_due();
  bool step(flight& what, int& error_number);
  bool step_transfer(flight& what, int& error_number);
  int step_sync(const flight& what);
  void fail_in_part(flight& what);
  void write_piece(flight& what, std::uint32_t bytes);

  const memory_disk_options options_;
  const std::chrono::steady_clock::time_point made_;
  /// Lock of the whole disk, needed because threads other than the owner's call `list` and
  /// `read_now`.
  mutable std::mutex mutex_;
  std::condition_variable woken_up_;
  bool woken_ = false;
  bool hanging_ = false;
  mutable bool stopped_ = false;
  mutable memory_disk_faults faults_;
  mutable std::mt19937_64 random_;
  mutable std::chrono::nanoseconds now_{0};
  std::uint64_t capacity_bytes_;
  mutable std::uint64_t operations_ = 0;
  std::uint64_t stop_at_ = std::numeric_limits<std::uint64_t>::max();
  mutable std::uint64_t order_ = 0; ///< Number of the last change of a file.
  std::uint64_t submitted_ = 0;
  memory_disk_names names_;
  std::vector<open_file> open_;
  std::vector<flight> flights_;
  requests_on_way on_way_;
};

} // namespace peercache::storage
