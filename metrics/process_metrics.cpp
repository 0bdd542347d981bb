#include "metrics/process_metrics.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace peercache::metrics {

namespace {

/// Fields of /proc/PID/stat; the manual page proc(5) numbers and describes them.
struct process_stat {
  std::uint64_t user_ticks = 0;
  std::uint64_t system_ticks = 0;
  std::uint64_t threads = 0;
  /// Start of the process, in clock ticks since the machine's start.
  std::uint64_t start_ticks = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t resident_pages = 0;
};

std::optional<process_stat> read_stat(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The name of the program is in brackets and may contain spaces and brackets.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos)
    return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int first = 3; // Number (from 1) of the first field behind the name.
  process_stat said;
  std::string field;
  for (int number = first; fields >> field; ++number) {
    std::uint64_t* wanted = number == 14   ? &said.user_ticks
                            : number == 15 ? &said.system_ticks
                            : number == 20 ? &said.threads
                            : number == 22 ? &said.start_ticks
                            : number == 23 ? &said.virtual_bytes
                            : number == 24 ? &said.resident_pages
                                           : nullptr;
    if (wanted != nullptr)
      *wanted = std::strtoull(field.c_str(), nullptr, 10);
    if (number == 24)
      return said;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> open_files(const std::string& folder) {
  std::error_code failed;
  std::uint64_t count = 0;
  for (std::filesystem::directory_iterator at(folder + "/fd", failed), end; !failed && at != end;
       at.increment(failed))
    ++count;
  if (failed || count == 0)
    return std::nullopt;
  return count - 1; // The folder itself is open while its entries are counted.
}

/// When the machine started, in seconds since 1970, as the kernel counts it. The difference of two
/// clocks would vary from scrape to scrape, and Prometheus takes a changed start time for a
/// restart.
std::optional<double> machine_start() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("btime "))
      return std::strtod(line.c_str() + std::strlen("btime "), nullptr);
  return std::nullopt;
}

} // namespace

std::vector<process_metric> process_metrics(const std::string& folder) {
  std::vector<process_metric> all;
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (const auto stat = read_stat(folder)) {
    const auto ticks = static_cast<double>(stat->user_ticks + stat->system_ticks);
    const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
    all.push_back({"process_cpu_seconds_total", "Processor time, user and system.", ticks / tick,
                   metric_type::counter});
    all.push_back({"process_resident_memory_bytes",
                   "Memory in use; what is touched of the pool counts.",
                   static_cast<double>(stat->resident_pages) * page});
    all.push_back({"process_virtual_memory_bytes", "Address space in use.",
                   static_cast<double>(stat->virtual_bytes)});
    if (const auto start = machine_start())
      all.push_back({"process_start_time_seconds", "Start, in seconds since 1970.",
                     *start + static_cast<double>(stat->start_ticks) / tick});
    all.push_back({"process_threads", "Threads.", static_cast<double>(stat->threads)});
  }
  if (const auto files = open_files(folder))
    all.push_back({"process_open_fds", "Open file descriptors.", static_cast<double>(*files)});
  if (rlimit limit{}; ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    all.push_back({"process_max_fds", "Most file descriptors that may be open.",
                   static_cast<double>(limit.rlim_cur)});
  return all;
}

} // namespace peercache::metrics
