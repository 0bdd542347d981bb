#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace peercache::tests {

/// Whether all threads of this name, of this process, sleep now, and there are `count` of them.
inline bool all_sleep(std::string_view wanted_name, std::size_t count) {
  std::size_t asleep = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream stat(task.path() / "stat");
    std::string line;
    std::getline(stat, line); // ID (NAME) STATE ...
    const auto name_at = line.find('('), name_end = line.rfind(')');
    if (name_end == line.npos || name_end + 2 >= line.size() ||
        std::string_view(line).substr(name_at + 1, name_end - name_at - 1) != wanted_name)
      continue;
    if (line[name_end + 2] != 'S')
      return false;
    ++asleep;
  }
  return asleep == count;
}

/// Returns how often the threads of this name, of this process, have gone to sleep so far.
inline std::uint64_t sleeps_of(std::string_view wanted_name) {
  std::uint64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream named(task.path() / "comm");
    std::string name;
    std::getline(named, name);
    if (name != wanted_name)
      continue;
    std::ifstream status(task.path() / "status");
    constexpr std::string_view wanted = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(wanted))
        sum += std::stoull(line.substr(wanted.size()));
  }
  return sum;
}

} // namespace peercache::tests
