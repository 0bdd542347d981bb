#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

namespace peercache::storage {

/// The kinds of operations for which faults and delays of `memory_disk_io` are set.
enum class disk_operation : std::uint8_t {
  read, ///< Submitted reads of files, and `read_now`.
  write,
  sync,    ///< Syncs of files and folders.
  metadata ///< create, open, truncate, rename, remove, make_folder, list.
};
inline constexpr std::size_t disk_operations = 4;

/// Decides which operations of a `memory_disk_io` fail, and how long they take. Threads: one at a
/// time.
class memory_disk_faults {
public:
  explicit memory_disk_faults(std::uint64_t seed) : random_(seed) {}

  /// Makes one operation of this kind fail: the next one after `skip` operations of this kind.
  void fail_once(disk_operation what, std::uint64_t skip, int error_number);
  /// Makes a random share (0 to 1) of the operations of this kind fail.
  void fail_share(disk_operation what, double share, int error_number);
  /// Makes every operation fail with this errno; 0: no longer.
  void fail_all(int error_number) { all_ = error_number; }
  /// Ends all faults that were set; delays and short transfers stay. Returns whether each operation
  /// that was to fail once has failed.
  bool heal();

  void set_delay(disk_operation what, std::chrono::nanoseconds delay,
                 std::chrono::nanoseconds jitter);
  /// Makes this share (0 to 1) of the transfers, chosen at random, move only a part of their bytes.
  void set_short_transfers(double share) { short_share_ = share; }

  /// Counts one operation of this kind. Returns the errno with which the operation must fail; 0: it
  /// succeeds.
  int next(disk_operation what);
  std::chrono::nanoseconds delay_of(disk_operation what);
  bool is_short() { return happens(short_share_); }

private:
  struct nth {
    disk_operation what;
    std::uint64_t left = 0;
    int error_number = 0;
  };
  struct share {
    double part = 0;
    int error_number = 0;
  };
  struct delay {
    std::chrono::nanoseconds least{0};
    std::chrono::nanoseconds jitter{0};
  };

  bool happens(double part);

  std::mt19937_64 random_;
  std::vector<nth> once_;
  std::array<share, disk_operations> shares_{};
  std::array<delay, disk_operations> delays_{};
  double short_share_ = 0;
  int all_ = 0;
};

} // namespace peercache::storage
