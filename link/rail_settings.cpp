#include "link/rail_settings.hpp"

namespace peercache::link {
namespace {

rdma::plane_mode mode_of(config::data_plane_mode mode) noexcept {
  switch (mode) {
  case config::data_plane_mode::verbs:
    return rdma::plane_mode::verbs;
  case config::data_plane_mode::tcp:
    return rdma::plane_mode::tcp;
  case config::data_plane_mode::automatic:
    break;
  }
  return rdma::plane_mode::automatic;
}

} // namespace

rdma::rail_settings rails_of(const config::node_config& config) {
  rdma::rail_settings made;
  made.mode = mode_of(config.data.plane);
  made.devices = config.rdma.devices;
  made.port = static_cast<std::uint8_t>(config.rdma.port);
  made.gid_index = config.rdma.gid_index == config::rdma_gid_chosen
                       ? -1
                       : static_cast<std::int32_t>(config.rdma.gid_index);
  made.path.traffic_class = static_cast<std::uint8_t>(config.rdma.traffic_class);
  made.path.service_level = static_cast<std::uint8_t>(config.rdma.service_level);
  made.path.hop_limit = static_cast<std::uint8_t>(config.rdma.hop_limit);
  made.path.timeout = static_cast<std::uint8_t>(config.rdma.timeout);
  made.path.retries = static_cast<std::uint8_t>(config.rdma.retries);
  made.windows = config.rdma.windows;
  made.pages_in_tls = config.tls.given() && config.tls_data == config::tls_data_mode::full;
  return made;
}

} // namespace peercache::link
