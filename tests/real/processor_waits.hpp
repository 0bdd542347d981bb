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

/// Tells for how long the threads of some processes waited for a processor, threads that begin
/// later not counted. Threads: one.
class processor_waits {
public:
  /// The waits of all threads so far, in nanoseconds, those of each process side by side.
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

  /// Returns for how long a matter that goes from process to process may have waited between two
  /// readings: the longest wait of a thread of each process, summed up.
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

  std::vector<std::vector<int>> files_; ///< Open files of the threads, by process.
};

} // namespace peercache::real
