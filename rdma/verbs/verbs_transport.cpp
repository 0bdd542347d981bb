#include "rdma/verbs/verbs_transport.hpp"

#include "common/assert.hpp"
#include "rdma/tcp/tcp_protocol.hpp"

#include <algorithm>
#include <limits>

namespace peercache::rdma {
namespace {

constexpr auto device_interval = std::chrono::milliseconds(5);

} // namespace

result<std::unique_ptr<reader_rail>> reader_rail::open(const std::string& device,
                                                       const verbs::port_choice& port,
                                                       const verbs_data_plane_options& opts) {
  auto made = std::make_unique<reader_rail>();
  made->options = opts;
  auto opened = verbs::device::open(device, port);
  if (!opened)
    return opened.error();
  made->device = std::move(*opened);
  made->destinations = std::make_unique<destination_memory>(*made->device);
  auto bounce = bounce_memory::create(*made->device, opts.bounce_bytes);
  if (!bounce)
    return bounce.error();
  made->bounce = std::move(*bounce);
  return made;
}

verbs_transport::verbs_transport(reader_rail& rail)
    : rail_(rail), shared_{rail.options, *rail.device, *rail.destinations, *rail.bounce,
                           rail.counters} {}

verbs_transport::~verbs_transport() {
  // The thread that polled has ended, so this thread may destroy the rail's verbs objects.
  rail_.device->own();
}

sub_request_limits verbs_transport::cut(const read_batch& batch) const noexcept {
  const bool of_pool = batch.peer.service == data_service::pool;
  return {of_pool ? limits::batch_pages_max : pieces_per_channel,
          std::numeric_limits<std::uint64_t>::max()};
}

std::uint32_t verbs_transport::channels_for(std::uint64_t, std::size_t pieces) const noexcept {
  const auto wanted = (pieces + pieces_per_channel - 1) / pieces_per_channel;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, 1, channels_per_batch_max));
}

/// Makes the calling thread the owner of the device, at the first call only. `open` and `poll` both
/// call this function, because either may be the polling thread's first call.
void verbs_transport::own_device() noexcept {
  if (!std::exchange(owned_, true))
    rail_.device->own();
}

void verbs_transport::adopt() noexcept {
  owned_ = true;
  rail_.device->own();
}

bool verbs_transport::prepare(net::event_poll& events) {
  own_device();
  if (completions_)
    return true;
  auto made = verbs::completion_channel::create(*rail_.device);
  if (!made || !events.add(made->fd(), device_id) ||
      !events.add(rail_.device->async_fd(), device_id))
    return false;
  completions_ = std::move(*made);
  return true;
}

std::unique_ptr<page_channel> verbs_transport::open(std::uint64_t id, const peer_endpoint& peer,
                                                    net::event_poll& events,
                                                    clock::time_point now) {
  if (!rail_.counters.usable.load(std::memory_order_relaxed) || !prepare(events))
    return nullptr;
  auto socket = net::start_connect(peer.host, peer.port, rail_.options.socket);
  if (!socket || !events.add(socket->get(), id))
    return nullptr;
  auto ends = verbs_ends::create(shared_, &*completions_);
  if (!ends)
    return nullptr;
  const auto greeting = greeting_for(peer, *ends);
  return std::make_unique<verbs_channel>(
      id, shared_, net::stream_socket::dialled(std::move(*socket), rail_.options.tls),
      std::move(*ends), greeting, now);
}

verbs_hello verbs_transport::greeting_for(const peer_endpoint& peer, const verbs_ends& ends) const {
  const auto& port = rail_.device->port();
  verbs_hello made;
  made.rail = rail_.options.rail;
  made.service = peer.service;
  made.cluster = cluster_digest(peer.cluster);
  made.inc = peer.inc;
  made.reader = rail_.options.reader;
  made.end.gid = port.gid;
  made.end.queue_pair = ends.pair.number();
  made.end.psn = verbs::random_psn();
  made.end.mtu_bytes = port.can.mtu_bytes;
  made.end.message_bytes = port.can.message_bytes;
  made.end.lid = port.lid;
  made.end.initiator_depth = std::min(port.can.initiator_depth, rail_.options.outstanding_reads);
  made.end.responder_depth = 1;
  made.end.layer = static_cast<std::uint8_t>(port.layer);
  made.name = padded_name(rail_.options.name);
  return made;
}

bool verbs_transport::poll(clock::time_point now) {
  own_device();
  if (std::exchange(shared_.armed, false)) {
    PEERCACHE_ASSERT(
        completions_); // Only channels set `armed`, and `completions_` is made before any channel.
    completions_->drain();
  }
  if (now < look_again_)
    return true;
  look_again_ = now + device_interval;
  return device_is_well();
}

/// Takes the device's events and updates `usable`. Returns false when an event says that the port
/// or the device has gone down.
bool verbs_transport::device_is_well() {
  bool well = true;
  for (auto event = rail_.device->next_event(); !event.name.empty();
       event = rail_.device->next_event()) {
    if (event.port_is_back)
      rail_.counters.usable = true;
    if (event.fatal)
      rail_.counters.usable = well = false;
  }
  return well;
}

result<std::unique_ptr<channel_data_plane>> make_verbs_data_plane(reader_rail& rail) {
  return channel_data_plane::create(rail.options.channels, std::make_unique<verbs_transport>(rail));
}

} // namespace peercache::rdma
