#pragma once

#include "storage/disk/io/folder_disk_io.hpp"
#include "storage/disk/io/requests_on_way.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace peercache::storage {

/// A `disk_io` of blocking calls, for where io_uring is forbidden or missing: the thread that reaps
/// carries out one request after the other.
class posix_disk_io final : public folder_disk_io {
public:
  posix_disk_io(opened_folder folder, std::uint32_t queue_depth);

  std::string_view name() const noexcept override { return "posix"; }
  result<void> register_memory(std::span<std::byte>) override { return {}; }
  bool submit(const disk_request& request) override;
  /// Carries out queued requests. Waits for the device, though `disk_io::reap` promises not to.
  std::size_t reap(std::span<disk_completion> completions) override;
  void wait(std::chrono::nanoseconds at_most) override;
  void wake() noexcept override;
  std::uint32_t in_flight() const noexcept override {
    return static_cast<std::uint32_t>(queued_.size());
  }
  std::uint32_t queue_depth() const noexcept override { return on_way_.queue_depth(); }

private:
  int carry_out(const disk_request& request) const;

  std::deque<disk_request> queued_;
  requests_on_way on_way_;
  /// Guards `woken_`, because `wake` is called from any thread.
  std::mutex mutex_;
  std::condition_variable woken_up_;
  bool woken_ = false;
};

} // namespace peercache::storage
