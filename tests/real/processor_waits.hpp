#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

namespace peercache::real {

/// Measures how long the threads of some processes wait for a processor. Only threads that exist
/// when this object is made are measured. Threads: one at a time.
class processor_waits {
public:
  /// For each process, for each of its threads: nanoseconds that it has waited for a processor so
  /// far.
  using reading = std::vector<std::vector<std::int64_t>>;

  explicit processor_waits(const std::vector<pid_t>& processes) {
    for (const auto process : processes) {
      auto& files = files_.emplace_back();
      const auto threads = "/proc/" + std::to_string(process) + "/task";
      for (const auto& thread : std::filesystem::directory_iterator(threads))
        if (const int file = ::open((thread.path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
            file >= 0)
          files.push_back(file);
    }
  }
  ~processor_waits() {
    for (const auto& files : files_)
      for (const int file : files)
        ::close(file);
  }
  processor_waits(const processor_waits&) = delete;
  processor_waits& operator=(const processor_waits&) = delete;

  reading read() const {
    reading all;
    for (const auto& files : files_) {
      auto& waits = all.emplace_back();
      for (const int file : files)
        waits.push_back(wait_in(file));
    }
    return all;
  }

  /// Returns for how long work that passes through all the processes may have waited for processors
  /// between two readings: the sum, over the processes, of the longest wait of a thread.
  static std::chrono::nanoseconds between(const reading& from, const reading& to) {
    std::int64_t sum = 0;
    for (std::size_t process = 0; process < from.size(); ++process) {
      std::int64_t longest = 0;
      for (std::size_t i = 0; i < from[process].size(); ++i)
        longest = std::max(longest, to[process][i] - from[process][i]);
      sum += longest;
    }
    return std::chrono::nanoseconds(sum);
  }

private:
  /// Reads the second number of a schedstat file (Documentation/scheduler/sched-stats.rst of
  /// Linux); 0 when the thread has ended.
  static std::int64_t wait_in(int file) {
    char text[64];
    const auto size = ::pread(file, text, sizeof(text), 0);
    std::int64_t ran = 0, waited = 0;
    if (size > 0) {
      const auto first = std::from_chars(text, text + size, ran);
      std::from_chars(first.ptr + 1, text + size, waited);
    }
    return waited;
  }

  /// For each process: the open schedstat files of its threads.
  std::vector<std::vector<int>> files_;
};

} // namespace peercache::real
