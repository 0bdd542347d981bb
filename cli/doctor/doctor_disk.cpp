#include "cli/doctor/doctor_disk.hpp"

#include "bench/sample_statistics.hpp"
#include "cli/doctor/check_ids.hpp"
#include "cli/output.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace peercache::cli {

namespace {

constexpr std::uint64_t mib = 1ull << 20;

/// Why a file system of this type is unsuitable for pages; empty when it is suitable.
std::string_view against(std::string_view file_system) {
  using entry = std::pair<std::string_view, std::string_view>;
  constexpr std::string_view remote = "other hosts are asked for each page, and a sync promises "
                                      "what they promise";
  static constexpr std::array<entry, 9> table = {
      {{"overlay", "a container's own layer: pages are gone with the container"},
       {"tmpfs", "memory: pages are gone with the machine, and take room from the pool"},
       {"ramfs", "memory: pages are gone with the machine, and take room from the pool"},
       {"nfs", remote},
       {"cifs", remote},
       {"smb2", remote},
       {"9p", remote},
       {"ceph", remote},
       {"fuse", "a program is asked for each page, and a sync promises what it promises"}}};
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const entry& one) { return one.first == file_system; });
  return found == table.end() ? std::string_view{} : found->second;
}

check judge_folder(const disk_facts& facts) {
  if (facts.why_not_writable.empty())
    return {"folder", verdict::ok, facts.folder + " can be written", ""};
  return {"folder", verdict::fail,
          fmt::format("{} cannot be written: {}; pages that leave memory would be forgotten",
                      facts.folder, facts.why_not_writable),
          fmt::format("mkdir -p {0} && chown USER {0}, with the user that the node runs as; or "
                      "another disk.path",
                      facts.path)};
}

check judge_owner(const disk_facts& facts) {
  const std::string name = "owner";
  if (facts.why_not_ours.empty())
    return {name, verdict::ok, "free, or this node's own", ""};
  if (facts.held_by_this_node)
    return {name, verdict::info, "this node runs: " + facts.why_not_ours, ""};
  return {name, verdict::fail, facts.why_not_ours,
          "another disk.path or node.name; or end the other process"};
}

check judge_store(const disk_facts& facts) {
  const std::string name = "store";
  if (facts.other_files.empty())
    return {name, verdict::ok, "no files of other stores", ""};
  return {name, verdict::warn,
          fmt::format("{} has {}, which disk.store = \"{}\" does not read: their pages are missed, "
                      "and take room that is not counted",
                      facts.folder, facts.other_files, facts.store),
          "set disk.store back, or remove these files when nobody needs their pages"};
}

check judge_file_system(const disk_facts& facts) {
  const auto known = facts.file_system.empty() ? "of an unknown type" : facts.file_system;
  const auto why = against(facts.file_system);
  if (why.empty())
    return {"file system", verdict::ok, known, ""};
  return {"file system", verdict::warn, fmt::format("{}: {}", known, why),
          "mount a local disk with ext4 or xfs, and set disk.path to a folder on it"};
}

check judge_direct(const disk_facts& facts) {
  if (facts.direct)
    return {"O_DIRECT", verdict::ok, "works with blocks of 4 KiB", ""};
  return {"O_DIRECT", verdict::warn,
          "refused: each page would be copied through the kernel's page cache",
          "set disk.path to a folder on ext4 or xfs, on a device with sectors of 4 KiB or less"};
}

check judge_uring(const disk_facts& facts) {
  if (facts.why_no_uring.empty())
    return {"io_uring", verdict::ok, "allowed", ""};
  return {"io_uring", verdict::warn,
          fmt::format("not to be had ({}): blocking calls would be used, one at a time",
                      facts.why_no_uring),
          "sysctl -w kernel.io_uring_disabled=0; in a container, a seccomp profile that allows "
          "io_uring_setup, io_uring_enter and io_uring_register"};
}

check judge_sync(const disk_facts& facts) {
  const std::string name = "fsync";
  if (!facts.why_no_sync.empty())
    return {name, verdict::fail, "failed: " + facts.why_no_sync,
            "dmesg says what the device complains of; use another disk.path"};
  const auto p99 = bench::percentile(facts.sync_us, 0.99);
  const auto found =
      fmt::format("4 KiB are durable after {:.2f} ms (p50), {:.2f} ms (p99 of {})",
                  bench::percentile(facts.sync_us, 0.5) / 1e3, p99 / 1e3, facts.sync_us.size());
  if (p99 <= sync_p99_us_most)
    return {name, verdict::ok, found, ""};
  return {name, verdict::warn,
          found + fmt::format("; above {:.0f} ms writes queue up", sync_p99_us_most / 1e3),
          "use an SSD with power-loss protection, which nobody else writes to"};
}

check judge_space(const disk_facts& facts) {
  const auto counted = facts.used_bytes + facts.free_bytes;
  const auto room = facts.more_is_used ? facts.whole_bytes : counted;
  const auto found =
      fmt::format("{} are free, {}{} are used by this node's files, disk.size is {}",
                  human_bytes(facts.free_bytes), facts.more_is_used ? "at least " : "",
                  human_bytes(facts.used_bytes), human_bytes(facts.size_bytes));
  if (counted >= facts.size_bytes)
    return {"space", verdict::ok, found, ""};
  if (room >= facts.size_bytes)
    return {"space", verdict::info,
            found + ": they are too many to be counted in time; `du` says whether the rest fits",
            ""};
  // Only nine tenths of the room are used, so that other writers of the file system have some left.
  const auto fits = room / 10 * 9 / mib * mib;
  return {"space", verdict::warn,
          found + ": the tier would be read-only whenever the file system is full",
          fmt::format("free {}, or set disk.size = \"{}\" or less",
                      human_bytes(facts.size_bytes - room), config::format_size(fits))};
}

} // namespace

check_group judge_disk(const disk_facts& facts) {
  check_group group{"disk", {}};
  const auto add = [&](const char* id, check given) {
    group.checks.push_back(with_id(id, std::move(given)));
  };
  if (!facts.wanted()) {
    add(check_ids::disk_tier,
        {"folder", verdict::info,
         std::string(facts.enabled ? "disk.path is empty" : "disk.enabled is false") +
             ": what leaves memory is forgotten",
         ""});
    return group;
  }
  add(check_ids::disk_folder, judge_folder(facts));
  if (group.checks.back().given == verdict::fail)
    return group; // Without a folder the remaining checks cannot be tried.
  add(check_ids::disk_owner, judge_owner(facts));
  add(check_ids::disk_store, judge_store(facts));
  add(check_ids::disk_file_system, judge_file_system(facts));
  add(check_ids::disk_direct, judge_direct(facts));
  add(check_ids::disk_uring, judge_uring(facts));
  add(check_ids::disk_sync, judge_sync(facts));
  add(check_ids::disk_space, judge_space(facts));
  return group;
}

} // namespace peercache::cli
