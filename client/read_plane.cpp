#include "client/read_plane.hpp"

#include "rdma/tcp_transport.hpp"

namespace peercache::client {

read_plane::read_plane(std::unique_ptr<rdma::data_plane> plane)
    : plane_(std::move(plane)), loop_(*plane_) {}

result<std::unique_ptr<read_plane>> read_plane::create(const client_options& options) {
  rdma::tcp_data_plane_options tcp;
  tcp.channels.channels_per_peer_max = options.channels_per_peer_max;
  auto plane = rdma::make_tcp_data_plane(tcp);
  if (!plane)
    return plane.error();
  return std::unique_ptr<read_plane>{new read_plane{std::move(*plane)}};
}

void read_plane::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  loop_.wake();
}

} // namespace peercache::client
