#pragma once

#include "rdma/channel_data_plane.hpp"
#include "rdma/tcp/tcp_options.hpp"

#include <memory>

namespace peercache::rdma {

/// Pages over TCP: asks page servers (tcp_page_server) and receives straight into the parts.
class tcp_transport final : public transport {
public:
  /// Makes a transport. @pre the options are within their limits (make_tcp_data_plane checks them)
  explicit tcp_transport(const tcp_data_plane_options& opts) : options_(opts) {}

  sub_request_limits cut(const read_batch& batch) const noexcept override;
  /// Chooses the number of channels by `bytes` only: one thread sends the pieces of all channels,
  /// and one request carries many pieces.
  std::uint32_t channels_for(std::uint64_t bytes, std::size_t pieces) const noexcept override;
  std::unique_ptr<page_channel> open(std::uint64_t id, const peer_endpoint& peer,
                                     net::event_poll& events, clock::time_point now) override;

private:
  const tcp_data_plane_options options_;
};

result<std::unique_ptr<channel_data_plane>> make_tcp_data_plane(const tcp_data_plane_options& opts);

} // namespace peercache::rdma
