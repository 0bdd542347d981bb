#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace peercache::storage {

/// Requests of one store: as many on the device as it takes, the others in line; reads before
/// writes, and syncs beside them.
/// Threads: one owner.
class request_line {
public:
  explicit request_line(disk_io& io) : io_(io) {}

  void add(const disk_request& request);
  /// Hands the device what it takes.
  void start();
  /// A request has completed.
  void finished() noexcept { --on_device_; }
  /// Hands each completion that is there to `take`, which calls `finished` for it.
  template <class Take>
  void take_completions(Take&& take) {
    std::array<disk_completion, 64> done;
    for (auto count = io_.reap(done); count != 0; count = io_.reap(done))
      for (std::size_t i = 0; i < count; ++i)
        take(done[i]);
  }
  /// Ends all requests: those that the device has not begun end as ECANCELED, the others are waited
  /// for. Nothing is on the device or in line afterwards.
  template <class Take>
  void end(Take&& take, const std::function<void(std::uint64_t tag, int error)>& cancelled) {
    for (const auto tag : cancel())
      cancelled(tag, ECANCELED);
    for (take_completions(take); on_device_ != 0; take_completions(take))
      io_.wait(std::chrono::hours(1)); // A completion ends the wait.
  }

  /// Whether requests are in line and no completion will come before they are started.
  bool must_start() const noexcept { return on_device_ == 0 && waiting() != 0; }

private:
  /// Takes the requests that the device has not begun out of the line; returns their tags.
  std::vector<std::uint64_t> cancel();
  std::size_t waiting() const noexcept { return syncs_.size() + reads_.size() + writes_.size(); }
  bool start(std::deque<disk_request>& line);

  disk_io& io_;
  std::deque<disk_request> syncs_;
  std::deque<disk_request> reads_;
  std::deque<disk_request> writes_;
  std::size_t on_device_ = 0;
};

} // namespace peercache::storage
