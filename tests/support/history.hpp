#pragma once

#include "common/page_key.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace peercache::tests {

/// Records the events of a test's run in a file. The script scripts/check_history.py judges the
/// file and describes its format. This class judges nothing and does not interpret bytes: it writes
/// a page as its first 8 bytes, a digest of all its bytes, and their number.
///
/// Threads: any, with a lock around each line. Files are complete when this object is destroyed.
class history {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using call_number = std::uint64_t;

  /// Opens the file at `path`; times are counted from `begin` on. Errors: the file cannot be
  /// written.
  static result<std::unique_ptr<history>> create(const std::string& path, time_point begin);
  /// Writes the end of the run, which is the time of its last event.
  ~history();
  history(const history&) = delete;
  history& operator=(const history&) = delete;

  /// Notes that `process` is about to offer these bytes.
  void put(time_point at, std::string_view process, const page_key& key,
           std::span<const std::byte> bytes);
  /// Notes that `process` has the page with these bytes in its pool from now on.
  void hold(time_point at, std::string_view process, const page_key& key,
            std::span<const std::byte> bytes);
  void drop(time_point at, std::string_view process, const page_key& key);

  call_number ask(time_point at, time_point until, std::string_view process, std::string_view kind);
  /// Notes that a call got a page. @param holder the process that the bytes came from; "-" when
  /// unknown
  void hit(call_number call, const page_key& key, std::span<const std::byte> bytes,
           std::string_view holder);
  void returned(call_number call, time_point at);

  void view(time_point at, std::string_view process, const discovery::view& adopted);
  /// Notes that a process stood still. @param process its name, or "*" for all processes
  void stall(time_point from, time_point to, std::string_view process);
  void gone(time_point at, std::string_view process);

private:
  struct closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  using file_ptr = std::unique_ptr<std::FILE, closer>;

  history(file_ptr file, time_point begin) : begin_(begin), file_(std::move(file)) {}
  /// Whole microseconds from `begin_` to `when`; the latest time becomes the end of the run.
  std::int64_t told(time_point when);
  void write(const std::string& line);

  const time_point begin_;
  std::atomic<call_number> calls_{0};
  std::mutex lock_; ///< Guards `file_` and `end_us_`.
  file_ptr file_;
  std::int64_t end_us_ = 0;
};

} // namespace peercache::tests
