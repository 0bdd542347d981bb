#pragma once

#include "common/assert.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace peercache::storage {

/// The requests of a store. The device gets as many requests as it takes; further requests wait in
/// line, reads before writes. After every `reads_per_write` reads one write goes first, so that
/// pages are written, and their memory becomes free, also while reads keep coming. Syncs have a
/// line of their own and wait for neither: many pages wait for a sync.
/// Threads: one owner.
class request_line {
public:
  explicit request_line(disk_io& io) : io_(io) {}

  void add(const disk_request& request);
  /// Submits requests from the lines until the device takes no further one.
  void start();
  /// Notes that a request has completed.
  void finished() noexcept {
    PEERCACHE_ASSERT(on_device_ > 0); // Each request completes once.
    --on_device_;
  }
  /// Hands each pending completion to `take`, which calls `finished` for it.
  template <class Take>
  void take_completions(Take&& take) {
    std::array<disk_completion, 64> done;
    for (auto count = io_.reap(done); count != 0; count = io_.reap(done))
      for (std::size_t i = 0; i < count; ++i)
        take(done[i]);
  }
  /// Ends all requests, so that none is left afterwards. Requests that are still in line, or are
  /// added meanwhile, are cancelled: `cancelled` is called with ECANCELED. Requests on the device
  /// are waited for, and `take` is called for each of them.
  template <class Take>
  void end(Take&& take, const std::function<void(std::uint64_t tag, int error)>& cancelled) {
    do {
      for (const auto tag : cancel())
        cancelled(tag, ECANCELED);
      take_completions(take);
      if (on_device_ != 0)
        io_.wait(std::chrono::hours(1)); // A completion ends the wait.
    } while (on_device_ != 0 || waiting() != 0);
  }

  /// Whether requests wait in line and none is on the device: then no completion will bring the
  /// owner to start them.
  bool must_start() const noexcept { return on_device_ == 0 && waiting() != 0; }

  static constexpr std::uint32_t reads_per_write = 7;

private:
  /// Empties the line and returns the tags of the requests in it.
  std::vector<std::uint64_t> cancel();
  std::size_t waiting() const noexcept { return syncs_.size() + reads_.size() + writes_.size(); }
  /// Submits the next read or write. False: none waits, or the device is full.
  bool start_transfer();
  /// Submits the first request of the line. False: the line is empty, or the device is full.
  bool start_first(std::deque<disk_request>& line);

  disk_io& io_;
  std::deque<disk_request> syncs_;
  std::deque<disk_request> reads_;
  std::deque<disk_request> writes_;
  std::uint64_t reads_since_write_ = 0;
  std::size_t on_device_ = 0;
};

} // namespace peercache::storage
