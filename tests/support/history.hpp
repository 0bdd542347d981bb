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

/// Writes down what happens in a run, for scripts/check_history.py, which judges it and has the
/// format's description. Nothing is judged here, and nothing is known of what bytes mean: a page is
/// its first 8 bytes, a digest of all of them, and their number.
///
/// Threads: any, with a lock around each line. Files are complete when this is destroyed.
class history {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using call_number = std::uint64_t;

  /// Times are told from `begin` on. Errors: the file cannot be written.
  static result<std::unique_ptr<history>> create(const std::string& path, time_point begin);
  /// The run ended when its last event happened.
  ~history();
  history(const history&) = delete;
  history& operator=(const history&) = delete;

  /// `process` is about to offer these bytes.
  void put(time_point at, std::string_view process, const page_key& key,
           std::span<const std::byte> bytes);
  /// The process has these bytes in place.
  void hold(time_point at, std::string_view process, const page_key& key,
            std::span<const std::byte> bytes);
  void drop(time_point at, std::string_view process, const page_key& key);

  call_number ask(time_point at, time_point until, std::string_view process, std::string_view kind);
  /// @param holder Where the bytes were; "-" when nobody knows.
  void hit(call_number call, const page_key& key, std::span<const std::byte> bytes,
           std::string_view holder);
  void returned(call_number call, time_point at);

  void view(time_point at, std::string_view process, const discovery::view& adopted);
  /// @param process "*" for all of them
  void stall(time_point from, time_point to, std::string_view process);
  void gone(time_point at, std::string_view process);

private:
  struct closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  using file_ptr = std::unique_ptr<std::FILE, closer>;

  history(file_ptr file, time_point begin) : begin_(begin), file_(std::move(file)) {}
  /// Whole microseconds since the beginning; the latest one becomes the end.
  std::int64_t told(time_point when);
  void write(const std::string& line);

  const time_point begin_;
  std::atomic<call_number> calls_{0};
  std::mutex lock_; ///< Guards the next two.
  file_ptr file_;
  std::int64_t end_us_ = 0;
};

} // namespace peercache::tests
