#include "rdma/verbs/port_report.hpp"

#include "rdma/verbs/gid.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

namespace peercache::rdma::verbs {

namespace {

std::uint8_t at_most_255(int value) noexcept {
  return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

std::uint32_t not_negative(int value) noexcept {
  return static_cast<std::uint32_t>(std::max(value, 0));
}

std::string no_devices(int error) {
  if (error == ELIBACC)
    return "libibverbs.so.1 is not there: install the packages libibverbs1 and ibverbs-providers "
           "(rdma-core), or, in a container, hand in the host's";
  if (error == ENOSYS || error == ENOENT)
    return "the kernel has no RDMA support loaded: `modprobe ib_uverbs` and the module of the NIC "
           "(mlx5_ib, irdma, bnxt_re, ...; rdma_rxe for RDMA in software)";
  if (error != 0)
    return std::string("the RDMA devices cannot be listed: ") + std::strerror(error) +
           "; in a container, /sys/class/infiniband_verbs and /dev/infiniband must be there";
  return "there is no RDMA device: is the module of the NIC loaded (mlx5_ib, irdma, bnxt_re, ...; "
         "rdma_rxe for RDMA in software) and the package ibverbs-providers installed? `rdma link` "
         "and `ibv_devices` must show it";
}

std::string cannot_open(const ibv_device& device, int error) {
  std::string text = std::string("cannot be opened: ") + std::strerror(error);
  const std::string node = std::string("/dev/infiniband/") + device.dev_name;
  if (error == EACCES || error == EPERM)
    return text + "; this user needs read and write permission on " + node;
  if (error == ENOENT)
    return text + "; " + node + " is missing: hand it into the container, or `modprobe ib_uverbs`";
  return text;
}

/// Says why a device of this kind cannot carry reliable READs on any of its ports; empty when it
/// can.
std::string wrong_kind(const ibv_device& device) {
  if (device.transport_type == IBV_TRANSPORT_IWARP)
    return "speaks iWARP, which needs a connection manager: only InfiniBand and RoCE v2 are served";
  if (device.transport_type != IBV_TRANSPORT_IB)
    return "has no reliable connections in the InfiniBand sense: only InfiniBand and RoCE v2 are "
           "served";
  return {};
}

std::int32_t numa_node_of(const ibv_device& device) {
  std::ifstream file(std::string(device.ibdev_path) + "/device/numa_node");
  std::int32_t node = -1;
  return file >> node ? node : -1;
}

/// Speed of one lane in tenths of Gbit/s: InfiniBand Architecture Specification 1.4,
/// PortInfo.LinkSpeedActive and its extensions.
std::uint64_t lane_tenths(std::uint8_t speed) noexcept {
  switch (speed) {
  case 1:
    return 25;
  case 2:
    return 50;
  case 4:
  case 8:
    return 100;
  case 16:
    return 140;
  case 32:
    return 250;
  case 64:
    return 500;
  case 128:
    return 1000;
  default:
    return 0;
  }
}

std::uint64_t lanes(std::uint8_t width) noexcept {
  switch (width) {
  case 1:
    return 1;
  case 2:
    return 4;
  case 4:
    return 8;
  case 8:
    return 12;
  case 16:
    return 2;
  default:
    return 0;
  }
}

const char* name_of(ibv_port_state state) noexcept {
  switch (state) {
  case IBV_PORT_DOWN:
    return "down";
  case IBV_PORT_INIT:
    return "initializing";
  case IBV_PORT_ARMED:
    return "armed";
  case IBV_PORT_ACTIVE:
    return "active";
  case IBV_PORT_ACTIVE_DEFER:
    return "link failing";
  default:
    return "unknown";
  }
}

capabilities capabilities_of(const ibv_device_attr& device, const ibv_port_attr& port) noexcept {
  capabilities can;
  can.send_depth = not_negative(device.max_qp_wr);
  can.completions = not_negative(device.max_cqe);
  can.sge = not_negative(device.max_sge_rd > 0 ? device.max_sge_rd : device.max_sge);
  can.message_bytes = port.max_msg_sz;
  can.initiator_depth = at_most_255(device.max_qp_init_rd_atom);
  can.responder_depth = at_most_255(device.max_qp_rd_atom);
  can.mtu_bytes = port.active_mtu >= IBV_MTU_256 && port.active_mtu <= IBV_MTU_4096
                      ? 128U << static_cast<unsigned>(port.active_mtu)
                      : 0;
  can.region_bytes = device.max_mr_size;
  can.windows = (device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  can.windows_max = not_negative(device.max_mw);
  return can;
}

std::string why_state(const port_report& report, const ibv_port_attr& port) {
  if (port.state == IBV_PORT_ACTIVE)
    return {};
  const std::string is = "the port is " + report.state;
  if (report.layer == link_layer::ethernet)
    return is + ": check the cable, and `ip link set <interface> up` (`rdma link` names it)";
  if (port.state == IBV_PORT_INIT || port.state == IBV_PORT_ARMED)
    return is + ": no subnet manager has configured it; start one (opensm) in the fabric";
  return is + ": check the cable and the switch (`ibstat` shows the physical state)";
}

std::string why_capabilities(const capabilities& can) {
  if (can.initiator_depth == 0 || can.responder_depth == 0)
    return "the device starts or answers no RDMA READs (max_qp_init_rd_atom, max_qp_rd_atom)";
  if (can.send_depth == 0 || can.completions == 0 || can.sge == 0 || can.message_bytes == 0)
    return "the device reports a limit of 0 (max_qp_wr, max_cqe, max_sge, max_msg_sz): update its "
           "firmware or driver";
  if (can.mtu_bytes == 0)
    return "the port reports no valid MTU";
  return {};
}

const gid_entry* find_gid(const std::vector<gid_entry>& table, std::int32_t index) {
  auto found = std::find_if(table.begin(), table.end(),
                            [index](const gid_entry& entry) { return entry.index == index; });
  return found == table.end() ? nullptr : &*found;
}

std::string why_no_gid(link_layer layer, const std::vector<gid_entry>& table) {
  if (layer == link_layer::infiniband)
    return "the port has no GID 0: no subnet manager has configured it; start one (opensm)";
  if (table.empty())
    return "the port has no GID: bring its network interface up and give it an IP address "
           "(`rdma link` names it)";
  return "the port has RoCE v1 GIDs only, which no router passes on: let it speak RoCE v2 "
         "(`cma_roce_mode -d <device> -p <port> -m 2`, or the NIC's firmware setting)";
}

/// Puts the GID entry that the operator wants, or the best one, into the report. Returns why there
/// is no usable entry; empty when there is one.
std::string take_gid(port_report& report, const std::vector<gid_entry>& table,
                     std::int32_t wanted_index) {
  const std::int32_t index = wanted_index >= 0 ? wanted_index : choose_gid(report.layer, table);
  if (index < 0)
    return why_no_gid(report.layer, table);
  const gid_entry* entry = find_gid(table, index);
  if (entry == nullptr)
    return "GID " + std::to_string(index) +
           " was asked for, but that entry is empty: `show_gids` "
           "or `ibv_devinfo -v` lists the others";
  if (entry->type == gid_entry::kind::roce_v1)
    return "GID " + std::to_string(index) +
           " was asked for, but it is a RoCE v1 one, which no "
           "router passes on: choose a RoCE v2 entry";
  report.gid_index = index;
  report.gid = entry->gid;
  report.gid_type = report.layer == link_layer::infiniband ? "IB" : "RoCE v2";
  return {};
}

std::string why_not(port_report& report, const ibv_port_attr& port, ibv_context& context,
                    const port_choice& choice) {
  if (choice.port != 0 && choice.port != report.port)
    return "port " + std::to_string(choice.port) + " of the device was asked for";
  if (std::string why = why_state(report, port); !why.empty())
    return why;
  if (std::string why = why_capabilities(report.can); !why.empty())
    return why;
  const auto table = read_gid_table(context, report.port, port.gid_tbl_len, report.layer);
  if (std::string why = take_gid(report, table, choice.gid_index); !why.empty())
    return why;
  if (report.layer == link_layer::infiniband && report.lid == 0)
    return "the port has no LID: no subnet manager has configured it; start one (opensm)";
  return {};
}

port_report report_port(ibv_context& context, const ibv_device_attr& device, std::uint8_t number,
                        const port_choice& choice) {
  port_report report;
  report.device = ::ibv_get_device_name(context.device);
  report.port = number;
  report.numa_node = numa_node_of(*context.device);
  ibv_port_attr port{};
  if (const int error = ibv_query_port(&context, number, &port); error != 0) {
    report.state = "unknown";
    report.why_not = std::string("the port cannot be queried: ") + std::strerror(error);
    return report;
  }
  report.state = name_of(port.state);
  report.layer =
      port.link_layer == IBV_LINK_LAYER_ETHERNET ? link_layer::ethernet : link_layer::infiniband;
  report.bits_per_second = lane_tenths(port.active_speed) * lanes(port.active_width) * 100'000'000;
  report.lid = port.lid;
  report.can = capabilities_of(device, port);
  report.why_not = why_not(report, port, context, choice);
  report.usable = report.why_not.empty();
  return report;
}

port_report useless(const ibv_device& device, std::string why) {
  port_report report;
  report.device = device.name;
  report.state = "unknown";
  report.numa_node = numa_node_of(device);
  report.why_not = std::move(why);
  return report;
}

} // namespace

device_list::device_list() {
  devices_ = ibv_get_device_list(&count_);
  if (devices_ == nullptr) {
    count_ = 0;
    why_none_ = no_devices(errno);
  } else if (count_ == 0) {
    why_none_ = no_devices(0);
  }
}

device_list::~device_list() {
  if (devices_ != nullptr)
    ::ibv_free_device_list(devices_);
}

std::vector<port_report> report_device(ibv_device& device, const port_choice& choice) {
  if (std::string why = wrong_kind(device); !why.empty())
    return {useless(device, std::move(why))};
  const open_context context(::ibv_open_device(&device));
  if (context == nullptr)
    return {useless(device, cannot_open(device, errno))};
  ibv_device_attr attributes{};
  if (const int error = ::ibv_query_device(context.get(), &attributes); error != 0)
    return {useless(device, std::string("cannot be queried: ") + std::strerror(error))};
  std::vector<port_report> reports;
  for (unsigned number = 1; number <= attributes.phys_port_cnt; ++number)
    reports.push_back(report_port(*context, attributes, static_cast<std::uint8_t>(number), choice));
  if (reports.empty())
    return {useless(device, "has no port")};
  return reports;
}

device_listing list_ports(const port_choice& choice) {
  device_listing listing;
  const device_list devices;
  listing.why_none = devices.why_none();
  for (ibv_device* device : devices)
    for (port_report& report : report_device(*device, choice))
      listing.ports.push_back(std::move(report));
  return listing;
}

} // namespace peercache::rdma::verbs
