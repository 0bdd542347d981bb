#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace peercache::storage {

/// The steps of a disk at which a test may have the process killed: each step is right after a call
/// or a completion.
enum class disk_step : std::uint8_t {
  create = 1,
  rename,
  remove,
  truncate,
  sync_folder,
  write_submitted,
  write_done,
  sync_submitted,
  sync_done,
  read_done
};

struct disk_faults {
  /// Percentage of transfers and syncs that do nothing and end with EIO.
  std::uint32_t error_percent = 0;
  std::chrono::milliseconds stall{0};
  /// How long the faults last, from the first write on; 0: for ever.
  std::chrono::milliseconds lasting{0};
  std::uint32_t kill_step = 0; ///< The `disk_step` at which the process is killed; 0: none.
  std::uint32_t kill_count = 1;

  /// Returns the faults that the environment asks for (common/guards.hpp).
  static disk_faults wanted() noexcept;
  bool any() const noexcept { return error_percent != 0 || stall.count() != 0 || kill_step != 0; }
};

/// A disk_io that passes calls on to a real disk_io, and fails as a test wants. Threads, ownership,
/// errors: as those of the real one.
class faulty_disk_io final : public disk_io {
public:
  faulty_disk_io(std::unique_ptr<disk_io> real, const disk_faults& faults);

  std::string_view name() const noexcept override { return real_->name(); }
  result<disk_file> create(const std::string& file, std::uint64_t bytes) override;
  result<disk_file> open(const std::string& file) override { return real_->open(file); }
  result<disk_file> open_folder(const std::string& folder) override {
    return real_->open_folder(folder);
  }
  void close(disk_file file) override { real_->close(file); }
  result<void> truncate(disk_file file, std::uint64_t bytes) override;
  result<std::uint64_t> bytes_of(disk_file file) override { return real_->bytes_of(file); }
  result<void> rename(const std::string& from, const std::string& to) override;
  result<void> remove(const std::string& file) override;
  result<void> make_folder(const std::string& folder) override {
    return real_->make_folder(folder);
  }
  result<void> sync_folder(const std::string& folder) override;
  result<std::vector<disk_folder_entry>> list(const std::string& folder) const override {
    return real_->list(folder);
  }
  result<disk_space> space() const override { return real_->space(); }
  result<std::size_t> read_now(const std::string& file, std::uint64_t offset_bytes,
                               std::span<std::byte> into) const override {
    return real_->read_now(file, offset_bytes, into);
  }
  result<void> read_heads(const std::string& folder, std::size_t head_bytes,
                          const std::function<void(const disk_file_head&)>& visit) const override {
    return real_->read_heads(folder, head_bytes, visit);
  }
  result<void> register_memory(std::span<std::byte> memory) override {
    return real_->register_memory(memory);
  }
  bool submit(const disk_request& request) override;
  std::size_t reap(std::span<disk_completion> completions) override;
  void wait(std::chrono::nanoseconds at_most) override;
  void wake() noexcept override { real_->wake(); }
  std::uint32_t in_flight() const noexcept override {
    return real_->in_flight() + static_cast<std::uint32_t>(late_.size());
  }
  std::uint32_t queue_depth() const noexcept override { return real_->queue_depth(); }

private:
  using clock = std::chrono::steady_clock;
  struct late {
    disk_completion what;
    bool is_sync = false;
    clock::time_point at;
  };

  bool faults_now() const noexcept;
  void pass(disk_step step) noexcept;
  void take_real();

  const std::unique_ptr<disk_io> real_;
  const disk_faults faults_;
  /// Time of the first write, from which the faults last; nothing before.
  std::optional<clock::time_point> started_;
  std::mt19937 random_{1};
  std::deque<late> late_; ///< Delayed completions, the earliest first.
  std::uint32_t passed_ = 0;
  /// A request that the real disk has not completed. Its tag at the real disk is its index in
  /// `sent_`.
  struct sent {
    std::uint64_t tag = 0;
    disk_request::kind what = disk_request::kind::read;
  };
  std::vector<sent> sent_;
  std::vector<std::uint32_t> free_;
  /// Number of transfers, and number of syncs, that the real disk has not completed.
  std::array<std::uint32_t, 2> on_way_{};
};

} // namespace peercache::storage
