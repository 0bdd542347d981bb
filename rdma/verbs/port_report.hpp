#pragma once

#include "rdma/verbs/device.hpp"

namespace peercache::rdma::verbs {

struct close_context {
  void operator()(ibv_context* context) const noexcept { ::ibv_close_device(context); }
};
using open_context = std::unique_ptr<ibv_context, close_context>;

/// The RDMA devices of this host. Errors: `why_none` says why the list is empty, and what to do.
class device_list {
public:
  device_list();
  ~device_list();
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;

  ibv_device** begin() const noexcept { return devices_; }
  ibv_device** end() const noexcept { return devices_ + count_; }
  const std::string& why_none() const noexcept { return why_none_; }

private:
  ibv_device** devices_ = nullptr;
  int count_ = 0;
  std::string why_none_;
};

/// The reports of all ports of a device; a single report for port 0 when the device cannot be used
/// at all.
std::vector<port_report> report_device(ibv_device& device, const port_choice& choice);

} // namespace peercache::rdma::verbs
