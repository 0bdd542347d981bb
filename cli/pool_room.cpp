#include "cli/pool_room.hpp"

#include "cli/output.hpp"
#include "common/assert.hpp"
#include "config/options.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/statvfs.h>

namespace peercache::cli {

namespace {

constexpr auto boundless = std::numeric_limits<std::uint64_t>::max();
constexpr auto boundless_line = std::numeric_limits<std::streamsize>::max();

/// Bytes of memory that this machine has available: MemAvailable of /proc/meminfo, which counts in
/// KiB.
std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string name; file >> name; file.ignore(boundless_line, '\n'))
    if (name == "MemAvailable:" && file >> kib)
      return kib << 10;
  return boundless;
}

std::uint64_t free_shared_memory() {
  struct statvfs about {};
  if (::statvfs("/dev/shm", &about) != 0)
    return boundless;
  return static_cast<std::uint64_t>(about.f_bavail) * about.f_frsize;
}

} // namespace

pool_room pool_room::of_machine() {
  return {free_shared_memory(), available_memory()};
}

result<void> check_pools(std::uint64_t nodes, std::uint64_t pool_bytes, const pool_room& room) {
  const auto* option = config::find_option("pool.size");
  PEERCACHE_ASSERT(option != nullptr && nodes > 0);
  auto allowed = config::value_from_text(*option, config::format_size(pool_bytes));
  if (!allowed)
    return {errc::invalid_argument, "--pool-size: " + allowed.error().message};
  auto [bytes, where] = room.memory_bytes < room.shared_memory_bytes
                            ? std::pair(room.memory_bytes, "memory")
                            : std::pair(room.shared_memory_bytes, "/dev/shm");
  if (pool_bytes <= bytes / nodes)
    return {};
  bool one = nodes == 1;
  return {errc::invalid_argument,
          fmt::format("--pool-size: {} of {}{}: this machine has {} of {} left; give a smaller "
                      "--pool-size{}",
                      one ? "1 pool" : fmt::format("{} pools", nodes),
                      config::format_size(pool_bytes), one ? " does not fit" : " each do not fit",
                      human_bytes(bytes), where, one ? "" : " or fewer nodes")};
}

} // namespace peercache::cli
