#pragma once

#include "cli/doctor/doctor.hpp"
#include "config/node_config.hpp"
#include "rdma/verbs/device.hpp"
#include "rdma/verbs/rail_choice.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::cli {

/// A port of a device, and the network interface below it.
struct port_facts {
  rdma::verbs::port_report report;
  /// Name of the interface, such as "eth0"; empty: none, or the kernel does not say.
  std::string interface;
  std::uint32_t interface_mtu = 0; ///< MTU of the interface in bytes; 0: unknown.
};

/// The kernel's huge pages of the size that `pool.huge_pages` asks for.
struct huge_page_facts {
  std::uint64_t page_bytes = 0; ///< Bytes of one huge page; 0: the kernel has none of this size.
  std::uint64_t reserved = 0;   ///< How many huge pages are reserved.
  std::uint64_t free = 0;       ///< How many huge pages are free.
  std::uint64_t held = 0;       ///< How many huge pages the pools of this host have now.
  bool mounted = false;         ///< Whether `huge_page_directory` is a hugetlbfs of this page size.
};
inline constexpr const char* huge_page_directory = "/dev/hugepages";

/// The facts that the RDMA checks judge by. A value, so that tests can make facts up.
struct rdma_facts {
  rdma::rail_settings wanted;
  std::uint64_t pool_bytes = 0;
  std::uint64_t chunk_bytes = 1u << 30; ///< `rdma.chunk_size`.
  config::huge_pages huge_pages = config::huge_pages::off;

  std::vector<port_facts> ports;
  std::string why_no_device; ///< Why the machine has no RDMA device; empty when it has one.
  std::uint64_t memlock_limit_bytes = 0;
  /// Whether the process has CAP_IPC_LOCK, so that the memlock limit does not count.
  bool memlock_exempt = false;
  huge_page_facts huge;
};

/// Finds out the RDMA facts of this machine, for a node with this configuration.
rdma_facts gather_rdma_facts(const config::node_config& config);

/// Judges the facts: the checks, in the order in which an operator would mend what they find.
check_group judge_rdma(const rdma_facts& facts);

/// Bytes that the devices lock for a pool of this size: pages and slot table, once for each rail.
/// In huge pages the table takes whole ones, and so do the pages.
std::uint64_t locked_bytes(std::uint64_t pool_bytes, config::huge_pages huge, std::size_t rails);

} // namespace peercache::cli
