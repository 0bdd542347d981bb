#include "cli/doctor/doctor_rdma.hpp"
#include "link/rail_settings.hpp"
#include "rdma/verbs/memory_region.hpp"

#include <filesystem>
#include <fstream>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

/// The first word of a small file of the kernel's (/proc, /sys) as a T; a default T when there is
/// none.
template <class T>
T first_word(const fs::path& path) {
  std::ifstream file(path);
  T word{};
  return file >> word ? word : T{};
}

/// The network interface of a port: that of the chosen entry of its GID table, otherwise that of
/// the first entry that has one.
std::string interface_below(const rdma::verbs::port_report& port) {
  const auto folder = fs::path("/sys/class/infiniband") / port.device / "ports" /
                      std::to_string(port.port) / "gid_attrs/ndevs";
  if (port.gid_index >= 0)
    return first_word<std::string>(folder / std::to_string(port.gid_index));
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (auto name = first_word<std::string>(it->path()); !name.empty())
      return name;
  return {};
}

port_facts facts_of(rdma::verbs::port_report report) {
  port_facts port;
  port.interface = interface_below(report);
  if (!port.interface.empty())
    port.interface_mtu =
        first_word<std::uint32_t>(fs::path("/sys/class/net") / port.interface / "mtu");
  port.report = std::move(report);
  return port;
}

/// Whether RLIMIT_MEMLOCK does not bind this process: the kernel lets a process with CAP_IPC_LOCK
/// lock any memory.
bool may_lock_anything() {
  constexpr unsigned cap_ipc_lock = 14;
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    if (name != "CapEff:")
      continue;
    std::uint64_t capabilities = 0;
    status >> std::hex >> capabilities;
    return (capabilities >> cap_ipc_lock & 1) != 0;
  }
  return false;
}

/// Bytes of huge pages that pools with this name prefix hold.
std::uint64_t bytes_of_pools(const std::string& name_prefix) {
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (fs::directory_iterator it(huge_page_directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    struct stat file {};
    if (it->path().filename().string().starts_with(name_prefix + "-") &&
        ::stat(it->path().c_str(), &file) == 0)
      // st_blocks counts in units of 512 bytes.
      bytes += static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
  return bytes;
}

huge_page_facts huge_pages_of(const config::node_config& config) {
  const auto bytes = config::bytes_of(config.pool.huge_pages);
  const auto folder =
      fs::path("/sys/kernel/mm/hugepages") / ("hugepages-" + std::to_string(bytes >> 10) + "kB");
  huge_page_facts huge;
  if (config.pool.huge_pages == config::huge_pages::off || !fs::exists(folder))
    return huge;
  huge.page_bytes = bytes;
  huge.reserved = first_word<std::uint64_t>(folder / "nr_hugepages");
  huge.free = first_word<std::uint64_t>(folder / "free_hugepages");
  struct statfs mount {};
  huge.mounted = ::statfs(huge_page_directory, &mount) == 0 && mount.f_type == HUGETLBFS_MAGIC &&
                 static_cast<std::uint64_t>(mount.f_bsize) == bytes;
  if (huge.mounted)
    huge.held = bytes_of_pools(config.pool.name_prefix) / bytes;
  return huge;
}

} // namespace

rdma_facts gather_rdma_facts(const config::node_config& config) {
  rdma_facts facts;
  facts.wanted = link::rails_of(config);
  facts.pool_bytes = config.pool.size_bytes;
  facts.chunk_bytes = config.rdma.chunk_bytes;
  facts.huge_pages = config.pool.huge_pages;
  auto listing = rdma::verbs::list_ports({facts.wanted.port, facts.wanted.gid_index});
  for (auto& report : listing.ports)
    facts.ports.push_back(facts_of(std::move(report)));
  facts.why_no_device = std::move(listing.why_none);
  facts.memlock_limit_bytes = rdma::verbs::memlock_limit_bytes();
  facts.memlock_exempt = may_lock_anything();
  facts.huge = huge_pages_of(config);
  return facts;
}

} // namespace peercache::cli
