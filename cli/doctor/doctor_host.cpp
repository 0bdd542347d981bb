#include "cli/doctor/doctor_host.hpp"

#include "cli/doctor/check_ids.hpp"
#include "cli/output.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

namespace peercache::cli {

namespace {

constexpr std::uint64_t bytes_in_mib = 1ull << 20;

/// The least number of whole MiB that holds this many bytes.
std::uint64_t whole_mib(std::uint64_t bytes) {
  return (bytes + bytes_in_mib - 1) / bytes_in_mib;
}

check judge_shared_memory(const host_facts& facts) {
  const std::string name = "/dev/shm";
  const auto pool = human_bytes(facts.pool_bytes);
  if (facts.huge_pages)
    return {name, verdict::info, "not used: the pool lies in huge pages", ""};
  if (!facts.why_no_shm.empty())
    return {name, verdict::fail, "cannot be used: " + facts.why_no_shm,
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm; where there is one: mount -o "
            "remount,rw,mode=1777 /dev/shm"};
  if (facts.shm_bytes == 0)
    return {name, verdict::ok, fmt::format("has no limit; the pool takes {}", pool), ""};
  const auto found = fmt::format("{} of {} are free; the pool takes {}",
                                 human_bytes(facts.shm_free_bytes + facts.held_bytes),
                                 human_bytes(facts.shm_bytes), pool);
  if (facts.shm_free_bytes + facts.held_bytes >= facts.pool_bytes)
    return {name, verdict::ok, found, ""};
  const auto wanted = facts.shm_bytes + facts.pool_bytes - facts.shm_free_bytes - facts.held_bytes;
  return {name, verdict::fail, found,
          fmt::format("mount -o remount,size={}M /dev/shm, in a container --shm-size={}m; or a "
                      "smaller pool.size",
                      whole_mib(wanted), whole_mib(wanted))};
}

check judge_memory(const host_facts& facts) {
  const std::string name = "memory";
  if (facts.memory_bytes == 0)
    return {name, verdict::info, "/proc/meminfo does not say how much there is", ""};
  const auto usable = facts.memory_available_bytes + facts.held_bytes;
  const auto found = fmt::format("{} of {} are available; the pool takes {}", human_bytes(usable),
                                 human_bytes(facts.memory_bytes), human_bytes(facts.pool_bytes));
  const auto fix = fmt::format("pool.size = \"{}MiB\" or less, or end what takes the memory",
                               usable / 10 * 9 / bytes_in_mib);
  if (facts.pool_bytes > facts.memory_bytes)
    return {name, verdict::fail, found + ": more than the machine has", fix};
  // The memory of huge pages is reserved, so it is no longer available.
  if (facts.pool_bytes > usable && !facts.huge_pages)
    return {name, verdict::fail,
            found + ": the kernel would end processes when the node touches its pool", fix};
  return {name, verdict::ok, found, ""};
}

check judge_cgroup(const host_facts& facts) {
  const std::string name = "cgroup memory";
  if (!facts.cgroup_bytes)
    return {name, verdict::ok, "no limit", ""};
  const auto found =
      fmt::format("the limit is {} ({}); the pool takes {}", human_bytes(*facts.cgroup_bytes),
                  facts.cgroup_file, human_bytes(facts.pool_bytes));
  if (facts.pool_bytes < *facts.cgroup_bytes)
    return {name, verdict::ok, found, ""};
  return {
      name, verdict::fail,
      found + ": the kernel would kill the node without a word when it touches its pool",
      fmt::format("a limit above {} (MemoryMax= in systemd, --memory, resources.limits.memory), "
                  "or a smaller pool.size",
                  human_bytes(facts.pool_bytes))};
}

check judge_open_files(const host_facts& facts) {
  const std::string name = "open files";
  if (facts.open_files_most == RLIM_INFINITY)
    return {name, verdict::ok, "no limit", ""};
  const auto found = fmt::format("the hard limit of this shell is {}", facts.open_files_most);
  const std::string fix =
      "LimitNOFILE=1048576 in the node's systemd unit; in a shell of root: ulimit -Hn 1048576";
  if (facts.open_files_most < open_files_least)
    return {name, verdict::fail, found + ": peers and engines would be turned away", fix};
  if (facts.open_files_most < open_files_enough)
    return {name, verdict::warn,
            found + fmt::format("; with fewer than {} many peers or engines are turned away",
                                open_files_enough),
            fix};
  return {name, verdict::ok, found, ""};
}

} // namespace

check_group judge_host(const host_facts& facts) {
  return {"host",
          {with_id(check_ids::shared_memory, judge_shared_memory(facts)),
           with_id(check_ids::memory, judge_memory(facts)),
           with_id(check_ids::cgroup_memory, judge_cgroup(facts)),
           with_id(check_ids::open_files, judge_open_files(facts))}};
}

} // namespace peercache::cli
