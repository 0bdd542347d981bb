#include "cli/doctor/doctor_host.hpp"
#include "common/ids.hpp"
#include "storage/pool_layout.hpp"
#include "storage/pool_memory.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

/// The value of a line "NAME: N kB" of /proc/meminfo in bytes; 0: there is no such line.
std::uint64_t memory_of(const fs::path& root, const std::string& name) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t kib = 0;
    if (words >> first >> kib && first == name + ":")
      return kib << 10;
  }
  return 0;
}

/// The limit in a file of a cgroup's memory controller; none for "max" or for a file that is not
/// there.
std::optional<std::uint64_t> limit_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  return file >> bytes ? std::optional(bytes) : std::nullopt;
}

/// Takes the lowest limit of the cgroup `path` and of all cgroups above it, up to `top`. Within a
/// container the path may be the host's; then only `top` has the file.
void look_at_cgroups(const fs::path& top, fs::path path, const char* file, host_facts& facts) {
  for (path = path.relative_path();; path = path.parent_path()) {
    const auto limit = limit_in(top / path / file);
    if (limit && (!facts.cgroup_bytes || *limit < *facts.cgroup_bytes)) {
      facts.cgroup_bytes = limit;
      facts.cgroup_file = (top / path / file).lexically_normal().string();
    }
    if (path.empty())
      return;
  }
}

/// Finds the memory limit of this process's cgroups, of version 2 ("0::/path") and of version 1
/// ("4:memory:/path").
void look_at_limits(const fs::path& root, host_facts& facts) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = line.substr(second + 1);
    if (controllers == ",,") {
      look_at_cgroups(root / "sys/fs/cgroup", path, "memory.max", facts);
      look_at_cgroups(root / "sys/fs/cgroup/unified", path, "memory.max", facts);
    } else if (controllers.find(",memory,") != std::string::npos) {
      look_at_cgroups(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes", facts);
    }
  }
  // Version 1 writes "no limit" as a number near the largest one.
  if (facts.cgroup_bytes >= std::uint64_t{1} << 60)
    facts.cgroup_bytes.reset();
}

void look_at_shm(const fs::path& folder, host_facts& facts) {
  struct statvfs about {};
  if (::statvfs(folder.c_str(), &about) != 0) {
    facts.why_no_shm = std::strerror(errno);
    return;
  }
  if ((about.f_flag & ST_RDONLY) != 0)
    facts.why_no_shm = std::strerror(EROFS);
  else if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    facts.why_no_shm = std::strerror(errno);
  facts.shm_bytes = static_cast<std::uint64_t>(about.f_blocks) * about.f_frsize;
  facts.shm_free_bytes = static_cast<std::uint64_t>(about.f_bavail) * about.f_frsize;
}

/// Bytes of memory that the files in `folder` take whose names are this start and an incarnation.
/// The pools of the node "gpu-1" do not count as those of "gpu".
std::uint64_t bytes_of(const fs::path& folder, const std::string& name_start) {
  const auto length = name_start.size() + to_string(incarnation{}).size();
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    struct stat file {};
    const auto name = it->path().filename().string();
    if (name.starts_with(name_start) && name.size() == length &&
        ::stat(it->path().c_str(), &file) == 0)
      // st_blocks counts in units of 512 bytes.
      bytes += static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
  return bytes;
}

} // namespace

host_facts gather_host_facts(const config::node_config& config, const fs::path& root) {
  host_facts facts;
  facts.huge_pages = config.pool.huge_pages != config::huge_pages::off;
  const auto layout =
      storage::plan_layout(config.pool.size_bytes, config::bytes_of(config.pool.huge_pages));
  facts.pool_bytes = layout ? layout->object_bytes : config.pool.size_bytes;
  storage::pool_memory_options names;
  names.name_prefix = config.pool.name_prefix;
  names.node_name = config.node.name;
  if (!facts.huge_pages)
    facts.held_bytes = bytes_of(root / "dev/shm", names.object_name_start());
  look_at_shm(root / "dev/shm", facts);
  facts.memory_bytes = memory_of(root, "MemTotal");
  facts.memory_available_bytes = memory_of(root, "MemAvailable");
  look_at_limits(root, facts);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  facts.open_files_most = files.rlim_max;
  return facts;
}

} // namespace peercache::cli
