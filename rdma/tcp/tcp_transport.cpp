#include "rdma/tcp/tcp_transport.hpp"

#include "common/assert.hpp"
#include "rdma/tcp/tcp_channel.hpp"

#include <algorithm>

namespace peercache::rdma {

sub_request_limits tcp_transport::cut(const read_batch&) const noexcept {
  PEERCACHE_ASSERT(options_.request_pages_max <= request_pages_max &&
                   options_.request_bytes_max <= request_bytes_max);
  return {options_.request_pages_max, options_.request_bytes_max};
}

std::uint32_t tcp_transport::channels_for(std::uint64_t bytes, std::size_t) const noexcept {
  const auto by_size = bytes / options_.stripe_bytes;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(by_size, 1, options_.stripe_channels_max));
}

std::unique_ptr<page_channel> tcp_transport::open(std::uint64_t id, const peer_endpoint& peer,
                                                  net::event_poll& events, clock::time_point now) {
  auto socket = net::start_connect(peer.host, peer.port, options_.socket);
  if (!socket || !events.add(socket->get(), id))
    return nullptr;
  return std::make_unique<tcp_channel>(
      id, net::stream_socket::dialled(std::move(*socket), options_.tls), peer, options_, now);
}

result<std::unique_ptr<channel_data_plane>>
make_tcp_data_plane(const tcp_data_plane_options& opts) {
  if (opts.requests_ahead_max == 0 || opts.request_pages_max == 0 ||
      opts.request_pages_max > rdma::request_pages_max ||
      opts.request_bytes_max > rdma::request_bytes_max || opts.receive_piece_bytes == 0 ||
      opts.stripe_bytes == 0 || opts.stripe_channels_max == 0)
    return {errc::invalid_argument, "TCP data plane: an option is zero or above its limit"};
  return channel_data_plane::create(opts.channels, std::make_unique<tcp_transport>(opts));
}

} // namespace peercache::rdma
