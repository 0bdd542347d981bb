#include "rdma/verbs/device.hpp"

#include "rdma/verbs/port_report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace peercache::rdma::verbs {

namespace {

error unknown_device(const std::string& name, const device_list& devices) {
  std::string names;
  for (const ibv_device* device : devices)
    names += (names.empty() ? "" : ", ") + std::string(device->name);
  return {errc::not_found, "there is no RDMA device '" + name + "'; this host has " +
                               (names.empty() ? "none: " + devices.why_none() : names)};
}

result<port_report> choose_port(ibv_device& device, const port_choice& choice) {
  std::string whys;
  std::vector<port_report> reports = report_device(device, choice);
  for (port_report& report : reports) {
    if (report.usable)
      return std::move(report);
    if (choice.port == 0 || report.port == choice.port || report.port == 0)
      whys += (whys.empty() ? "" : "; ") +
              (report.port == 0 ? "" : "port " + std::to_string(report.port) + ": ") +
              report.why_not;
  }
  if (whys.empty())
    whys = "has no port " + std::to_string(choice.port) + ", only 1.." +
           std::to_string(reports.size());
  return {errc::refused, "RDMA device " + std::string(device.name) + ": " + whys};
}

const char* name_of(ibv_event_type type) noexcept {
  switch (type) {
  case IBV_EVENT_CQ_ERR:
    return "completion queue overrun";
  case IBV_EVENT_QP_FATAL:
    return "queue pair failed";
  case IBV_EVENT_QP_REQ_ERR:
    return "invalid request to a queue pair";
  case IBV_EVENT_QP_ACCESS_ERR:
    return "forbidden access to a queue pair";
  case IBV_EVENT_DEVICE_FATAL:
    return "device failed";
  case IBV_EVENT_PORT_ACTIVE:
    return "port active";
  case IBV_EVENT_PORT_ERR:
    return "port down";
  case IBV_EVENT_LID_CHANGE:
    return "LID changed";
  case IBV_EVENT_GID_CHANGE:
    return "GID table changed";
  default:
    return ::ibv_event_type_str(type);
  }
}

bool names_queue_pair(ibv_event_type type) noexcept {
  switch (type) {
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    return true;
  default:
    return false;
  }
}

bool make_non_blocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

} // namespace

result<std::unique_ptr<device>> device::open(const std::string& name, const port_choice& choice) {
  const device_list devices;
  auto* const* found = std::find_if(devices.begin(), devices.end(),
                                    [&](const ibv_device* device) { return name == device->name; });
  if (found == devices.end())
    return unknown_device(name, devices);
  auto port = choose_port(**found, choice);
  if (!port)
    return port.error();

  std::unique_ptr<device> opened(new device);
  opened->port_ = std::move(*port);
  opened->context_ = ::ibv_open_device(*found);
  if (opened->context_ == nullptr)
    return {errc::io_failed, "RDMA device " + name + " cannot be opened: " + std::strerror(errno)};
  opened->domain_ = ::ibv_alloc_pd(opened->context_);
  if (opened->domain_ == nullptr)
    return {errc::out_of_memory,
            "RDMA device " + name + " gives no protection domain: " + std::strerror(errno)};
  if (!make_non_blocking(opened->context_->async_fd))
    return {errc::io_failed,
            "RDMA device " + name + ": its events cannot be polled: " + std::strerror(errno)};
  return opened;
}

device::~device() {
  if (domain_ != nullptr) {
    assert_owned();
    // EBUSY means that a verbs object made from the protection domain still exists.
    PEERCACHE_ASSERT(::ibv_dealloc_pd(domain_) != EBUSY);
  }
  if (context_ != nullptr)
    ::ibv_close_device(context_);
}

device::async_event device::next_event() {
  ibv_async_event raw{};
  if (::ibv_get_async_event(context_, &raw) != 0)
    return {};
  async_event event;
  event.name = name_of(raw.event_type);
  const bool of_our_port = raw.element.port_num == port_.port;
  event.fatal = raw.event_type == IBV_EVENT_DEVICE_FATAL ||
                (raw.event_type == IBV_EVENT_PORT_ERR && of_our_port);
  event.port_is_back = raw.event_type == IBV_EVENT_PORT_ACTIVE && of_our_port;
  if (names_queue_pair(raw.event_type))
    event.queue_pair = raw.element.qp->qp_num;
  ::ibv_ack_async_event(&raw);
  return event;
}

} // namespace peercache::rdma::verbs
