#include "cli/bench/process_cost.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <system_error>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

void add_thread(const fs::path& thread, process_cost& to) {
  std::uint64_t nanoseconds = 0;
  if (std::ifstream schedstat(thread / "schedstat"); schedstat >> nanoseconds)
    to.cpu_seconds += static_cast<double>(nanoseconds) / 1e9;
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);)
    if (const auto at = line.find("ctxt_switches:"); at != std::string::npos)
      to.switches += std::stoull(line.substr(at + sizeof "ctxt_switches:" - 1));
}

} // namespace

process_cost cost_of(std::span<const pid_t> processes) {
  process_cost sum;
  for (const auto pid : processes) {
    std::error_code gone;
    auto thread = fs::directory_iterator(fmt::format("/proc/{}/task", pid), gone);
    for (; !gone && thread != fs::directory_iterator(); thread.increment(gone))
      add_thread(thread->path(), sum);
  }
  return sum;
}

} // namespace peercache::cli
