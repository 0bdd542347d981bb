#include "cli/doctor/doctor_rdma.hpp"

#include "cli/doctor/check_ids.hpp"
#include "cli/output.hpp"
#include "common/limits.hpp"
#include "rdma/verbs/memory_window.hpp"
#include "rdma/verbs/region_registry.hpp"
#include "rdma/verbs/verbs_server_options.hpp"
#include "storage/pool_layout.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>

namespace peercache::cli {

namespace {

using rdma::plane_mode;
using rdma::verbs::link_layer;

constexpr std::uint32_t mtu_bytes_best = 4096;
/// The MTU of a network interface that holds a RoCE packet of 4096 bytes of payload: GRH, UDP, BTH,
/// extended headers and ICRC around it, rounded up as drivers do.
constexpr std::uint32_t interface_mtu_best = 4200;

/// The verdict on a fault of something that RDMA needs: `given`, or only `info` when `data_plane`
/// is tcp, since nothing depends on RDMA then.
verdict unless_tcp(const rdma_facts& facts, verdict given) {
  return facts.wanted.mode == plane_mode::tcp ? verdict::info : given;
}

std::string port_name(const port_facts& port) {
  return fmt::format("{}/{}", port.report.device, port.report.port);
}

std::string interface_of(const port_facts& port) {
  return port.interface.empty() ? "INTERFACE" : port.interface;
}

bool takes_all(const rdma_facts& facts) {
  return facts.wanted.devices == std::vector<std::string>{"auto"};
}

bool is_wanted(const rdma_facts& facts, const rdma::verbs::port_report& report) {
  const auto& names = facts.wanted.devices;
  return (takes_all(facts) ||
          std::find(names.begin(), names.end(), report.device) != names.end()) &&
         (facts.wanted.port == 0 || facts.wanted.port == report.port);
}

/// The rails that a node with this configuration would take; when `data_plane` is tcp, those that
/// it would take with `auto`.
result<rdma::rail_choice> choice_of(const rdma_facts& facts) {
  rdma::verbs::device_listing there{.ports = {}, .why_none = facts.why_no_device};
  for (const auto& port : facts.ports)
    there.ports.push_back(port.report);
  auto wanted = facts.wanted;
  if (wanted.mode == plane_mode::tcp)
    wanted.mode = plane_mode::automatic;
  return rdma::choose_rails(wanted, there);
}

std::size_t rails_of(const rdma_facts& facts) {
  auto choice = choice_of(facts);
  return choice ? choice->rails.size() : 0;
}

std::string names_of(const rdma::rail_choice& choice) {
  std::string names;
  for (const auto& rail : choice.rails)
    names += fmt::format("{}{}/{}", names.empty() ? "" : ", ", rail.device, rail.port);
  return names;
}

std::string plane_fix(const rdma_facts& facts) {
  std::string mend = facts.ports.empty()
                         ? "load the module of the NIC; for a trial, RDMA in software: modprobe "
                           "rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE"
                         : "mend what is said below";
  return mend + "; or set data_plane = \"tcp\" if TCP is what you want";
}

check judge_plane(const rdma_facts& facts) {
  const std::string name = "data plane";
  auto choice = choice_of(facts);
  if (!choice)
    return {name, verdict::fail, choice.error().message, plane_fix(facts)};
  auto names = names_of(*choice);
  if (facts.wanted.mode == plane_mode::tcp)
    return {name, verdict::info,
            "data_plane = \"tcp\": no RDMA is asked for" +
                (names.empty() ? "" : ", though it could go over " + names),
            ""};
  if (names.empty())
    return {name, verdict::warn,
            facts.ports.empty() ? "no RDMA device: TCP will be used (" + facts.why_no_device + ")"
                                : "no usable RDMA port: TCP will be used",
            plane_fix(facts)};
  return {name, verdict::ok, "RDMA will be used over " + names, ""};
}

std::string rate_of(std::uint64_t bits_per_second) {
  return bits_per_second == 0
             ? "rate unknown"
             : fmt::format("{:g} Gbit/s", static_cast<double>(bits_per_second) / 1e9);
}

std::string port_fix(const rdma_facts& facts, const port_facts& port) {
  const auto& report = port.report;
  bool ethernet = report.layer == link_layer::ethernet;
  if (report.state == "unknown")
    return "chmod a+rw /dev/infiniband/uverbs*, or hand /dev/infiniband into the container";
  if (report.state != "active")
    return ethernet ? fmt::format("ip link set {} up", interface_of(port))
                    : "systemctl start opensm on one host of the fabric";
  if (facts.wanted.gid_index >= 0)
    return "set rdma.gid_index = 255, with which the node chooses the entry, or to one that "
           "`show_gids` lists as RoCE v2";
  return ethernet ? fmt::format("ip address add ADDRESS/PREFIX dev {}", interface_of(port))
                  : "choose another device";
}

check judge_port(const rdma_facts& facts, const port_facts& port) {
  const auto& report = port.report;
  if (!is_wanted(facts, report))
    return {port_name(port), verdict::info, "not asked for by rdma.devices and rdma.port", ""};
  if (!report.usable)
    return {port_name(port), unless_tcp(facts, verdict::warn), report.why_not,
            port_fix(facts, port)};
  auto layer = report.layer == link_layer::ethernet ? "Ethernet" : "InfiniBand";
  auto numa = report.numa_node < 0 ? std::string("NUMA node unknown")
                                   : fmt::format("NUMA node {}", report.numa_node);
  return {port_name(port), verdict::ok,
          fmt::format("{}, {}, {}, {}{}", report.state, layer, rate_of(report.bits_per_second),
                      numa, port.interface.empty() ? "" : ", interface " + port.interface),
          ""};
}

/// Adds a failed check for each device that the configuration names and the machine does not have.
void add_missing_devices(const rdma_facts& facts, std::vector<check>& checks) {
  if (takes_all(facts))
    return;
  for (const auto& name : facts.wanted.devices) {
    bool there = std::any_of(facts.ports.begin(), facts.ports.end(),
                             [&](const port_facts& port) { return port.report.device == name; });
    if (!there)
      checks.push_back({name, unless_tcp(facts, verdict::warn),
                        "rdma.devices names it, but there is no such device",
                        "set rdma.devices = [\"auto\"], or one that `rdma link` lists",
                        check_ids::rdma_device});
  }
}

bool is_link_local(const rdma::verbs::gid_bytes& gid) {
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

check judge_gid(const rdma_facts& facts, const port_facts& port) {
  const auto& report = port.report;
  auto found = fmt::format("index {}, {}, {}", report.gid_index, rdma::verbs::to_string(report.gid),
                           report.gid_type);
  auto name = port_name(port) + " GID";
  if (report.layer == link_layer::ethernet && is_link_local(report.gid))
    return {name, unless_tcp(facts, verdict::warn),
            found + ": a link-local address, which no router passes on",
            fmt::format("ip address add ADDRESS/PREFIX dev {}", interface_of(port))};
  return {name, verdict::ok, found, ""};
}

check judge_mtu(const rdma_facts& facts, const port_facts& port) {
  const auto& report = port.report;
  auto found = fmt::format("{} bytes active", report.can.mtu_bytes);
  if (port.interface_mtu != 0)
    found += fmt::format(", {} has {}", port.interface, port.interface_mtu);
  auto name = port_name(port) + " MTU";
  if (report.can.mtu_bytes >= mtu_bytes_best)
    return {name, verdict::ok, found, ""};
  auto given = unless_tcp(facts, verdict::warn);
  found += fmt::format("; with {} a READ takes fewer packets", mtu_bytes_best);
  if (report.layer == link_layer::infiniband)
    return {name, given, found,
            "let the subnet manager allow it: mtu=5 in opensm's partitions.conf"};
  return {name, given, found,
          fmt::format("ip link set {} mtu {}, on every host, and as much on the switches",
                      interface_of(port), interface_mtu_best)};
}

/// The windows that one connection takes on one rail: one for each chunk of table and pages.
std::uint64_t windows_of_one(const rdma_facts& facts, std::uint64_t chunk_bytes) {
  const auto longest = std::min(chunk_bytes, rdma::verbs::region_windows::bytes_max);
  // Chunks are counted from the huge page that the memory begins in. Memory in huge pages begins
  // at the start of one; other memory may begin anywhere in it.
  const auto lead = facts.huge_pages == config::huge_pages::off
                        ? rdma::chunk_plan::unit_bytes - limits::granule_bytes
                        : 0;
  return (locked_bytes(facts.pool_bytes, facts.huge_pages, 1) + lead + longest - 1) / longest;
}

/// Judges whether a device has the windows for as many connections as a rail takes.
check judge_window_count(const rdma_facts& facts, std::uint64_t windows_max,
                         const std::string& name) {
  const auto of_one = windows_of_one(facts, facts.chunk_bytes);
  const std::uint64_t most = rdma::verbs_server_options{}.sessions_max;
  if (windows_max == 0)
    return {name, verdict::ok, "memory windows of type 2B", ""};
  const auto lasts = windows_max / of_one;
  const auto found =
      fmt::format("{} memory windows of type 2B; a connection takes {} for a pool of {}, so they "
                  "last for {} of {} connections",
                  windows_max, of_one, human_bytes(facts.pool_bytes), std::min(lasts, most), most);
  if (lasts >= most)
    return {name, verdict::ok, found, ""};
  const auto of_longest = windows_of_one(facts, rdma::verbs::region_windows::bytes_max);
  const std::string otherwise =
      of_longest < of_one ? fmt::format("set rdma.chunk_size = \"2GiB\", with which a connection "
                                        "takes {}; or ",
                                        of_longest)
                          : "";
  if (lasts == 0)
    return {name, unless_tcp(facts, verdict::fail), found + ": a node does not start",
            otherwise + "lower pool.size, or set rdma.windows = false"};
  return {name, unless_tcp(facts, verdict::warn),
          found + fmt::format("; a reader has up to {} of them, and further ones take another rail "
                              "or TCP",
                              limits::channels_per_peer_max),
          otherwise + "lower pool.size, or set rdma.windows = false"};
}

/// Judges whether a port has the memory windows that `rdma.windows` asks for; a node does not start
/// without them.
check judge_windows(const rdma_facts& facts, const port_facts& port) {
  const auto name = port_name(port) + " windows";
  if (port.report.can.windows)
    return judge_window_count(facts, port.report.can.windows_max, name);
  return {name, unless_tcp(facts, verdict::fail),
          "no memory windows of type 2B, which rdma.windows asks for: a node does not start",
          fmt::format("set rdma.windows = false, or leave {} out of rdma.devices, or set "
                      "data_plane = \"tcp\"",
                      port.report.device)};
}

check judge_memlock(const rdma_facts& facts) {
  auto rails = rails_of(facts);
  auto need = locked_bytes(facts.pool_bytes, facts.huge_pages, std::max<std::size_t>(rails, 1));
  auto pool =
      fmt::format("the pool ({}) on {} {} takes {}", human_bytes(facts.pool_bytes),
                  std::max<std::size_t>(rails, 1), rails > 1 ? "ports" : "port", human_bytes(need));
  if (facts.memlock_exempt || facts.memlock_limit_bytes == RLIM_INFINITY)
    return {"memlock", verdict::ok,
            fmt::format("{}; {}",
                        facts.memlock_exempt ? "no limit for this user (CAP_IPC_LOCK)" : "no limit",
                        pool),
            ""};
  auto found = fmt::format("the limit of this shell is {}, {}",
                           human_bytes(facts.memlock_limit_bytes), pool);
  if (need <= facts.memlock_limit_bytes)
    return {"memlock", verdict::ok, found, ""};
  // A node without rails locks no memory; the verdict still fails where data_plane = "verbs"
  // insists on rails.
  const bool locks = rails > 0 || facts.wanted.mode == plane_mode::verbs;
  return {"memlock", locks ? unless_tcp(facts, verdict::fail) : verdict::info, found,
          "LimitMEMLOCK=infinity in the node's systemd unit; in a shell: ulimit -l unlimited"};
}

std::string reserve_line(std::uint64_t page_bytes, std::uint64_t pages) {
  return page_bytes == 2u << 20
             ? fmt::format("sysctl -w vm.nr_hugepages={}", pages)
             : fmt::format("echo {} > /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages", pages,
                           page_bytes >> 10);
}

check judge_huge_pages(const rdma_facts& facts) {
  const std::string name = "huge pages";
  if (facts.huge_pages == config::huge_pages::off)
    return {name, verdict::info, "pool.huge_pages is off: the pool has pages of 4 KiB", ""};
  const auto& huge = facts.huge;
  auto size = config::to_string(facts.huge_pages);
  if (huge.page_bytes == 0)
    return {name, verdict::fail, fmt::format("this kernel has no huge pages of {}", size),
            "set pool.huge_pages = \"off\", or another size"};
  const auto layout = storage::plan_layout(facts.pool_bytes, huge.page_bytes);
  const auto object_bytes = layout ? layout->object_bytes : facts.pool_bytes;
  const auto need = (object_bytes + huge.page_bytes - 1) / huge.page_bytes;
  auto found = fmt::format("{} pages of {} reserved, {} free, {} held by pools; the pool takes {}",
                           huge.reserved, size, huge.free, huge.held, need);
  if (huge.free + huge.held < need)
    return {name, verdict::fail, found,
            reserve_line(huge.page_bytes, huge.reserved + need - huge.free - huge.held)};
  return {name, verdict::ok, found, ""};
}

check judge_mount(const rdma_facts& facts) {
  const std::string name = "hugetlbfs";
  const auto size = config::to_string(facts.huge_pages);
  if (facts.huge.mounted)
    return {name, verdict::ok,
            fmt::format("{} is mounted, with pages of {}", huge_page_directory, size), ""};
  return {name, verdict::fail,
          fmt::format("{} is no hugetlbfs with pages of {}", huge_page_directory, size),
          fmt::format("mount -t hugetlbfs -o pagesize={} none {}",
                      facts.huge_pages == config::huge_pages::size_2mib ? "2M" : "1G",
                      huge_page_directory)};
}

} // namespace

std::uint64_t locked_bytes(std::uint64_t pool_bytes, config::huge_pages huge, std::size_t rails) {
  const auto layout = storage::plan_layout(pool_bytes, config::bytes_of(huge));
  return (layout ? layout->object_bytes - layout->table_offset : pool_bytes) * rails;
}

check_group judge_rdma(const rdma_facts& facts) {
  check_group group{"rdma", {with_id(check_ids::data_plane, judge_plane(facts))}};
  const auto add = [&](const char* id, check given) {
    group.checks.push_back(with_id(id, std::move(given)));
  };
  add_missing_devices(facts, group.checks);
  for (const auto& port : facts.ports) {
    add(check_ids::rdma_port, judge_port(facts, port));
    if (port.report.usable && is_wanted(facts, port.report)) {
      add(check_ids::rdma_gid, judge_gid(facts, port));
      add(check_ids::rdma_mtu, judge_mtu(facts, port));
      if (facts.wanted.windows)
        add(check_ids::rdma_windows, judge_windows(facts, port));
    }
  }
  add(check_ids::memlock, judge_memlock(facts));
  add(check_ids::huge_pages, judge_huge_pages(facts));
  if (facts.huge_pages != config::huge_pages::off)
    add(check_ids::hugetlbfs, judge_mount(facts));
  return group;
}

} // namespace peercache::cli
