#pragma once

#include "rdma/channel_data_plane.hpp"
#include "rdma/verbs/verbs_channel.hpp"

#include <memory>
#include <optional>

namespace peercache::rdma {

/// One rail of this process as a reader: an open device, the memory it may READ into, and its
/// counters.
/// Threads: construction and destruction any; `destinations` and `counters` any; all else the
/// thread of the rail's data plane. Ownership: outlives the data plane made from it.
struct reader_rail {
  /// Opens the device and registers bounce memory. @pre check(opts.path) passed
  static result<std::unique_ptr<reader_rail>> open(const std::string& device,
                                                   const verbs::port_choice& port,
                                                   const verbs_data_plane_options& opts);

  verbs_data_plane_options options;
  std::unique_ptr<verbs::device> device;
  std::unique_ptr<destination_memory> destinations;
  std::unique_ptr<bounce_memory> bounce;
  rail_counters counters;
};

/// Brings pages by one-sided READs over one rail. The device's events are looked at every few
/// milliseconds: when the port goes down the rail's channels are lost, and no channel opens until
/// the port is back.
class verbs_transport final : public transport {
public:
  explicit verbs_transport(reader_rail& rail);
  ~verbs_transport() override;

  /// A batch of pieces under leases gets one channel for each `pieces_per_channel` of its pieces,
  /// because a queue pair has few READs on the wire at a time.
  static constexpr std::uint32_t pieces_per_channel = 1024;
  static constexpr std::uint32_t channels_per_batch_max = 4;

  /// The limits of a sub-request. For pages of a pool they are so wide that one sub-request holds a
  /// whole batch, which is then validated once. Pieces under leases are cut into sub-requests of
  /// `pieces_per_channel`, each of which READs the leases once more.
  sub_request_limits cut(const read_batch& batch) const noexcept override;
  std::uint32_t channels_for(std::uint64_t bytes, std::size_t pieces) const noexcept override;
  std::unique_ptr<page_channel> open(std::uint64_t id, const peer_endpoint& peer,
                                     net::event_poll& events, clock::time_point now) override;
  bool reads_areas() const noexcept override { return true; }
  void adopt() noexcept override;
  bool poll(clock::time_point now) override;

private:
  /// The id under which epoll reports the device's events; no channel has it.
  static constexpr std::uint64_t device_id = 0;

  void own_device() noexcept;
  bool prepare(net::event_poll& events);
  verbs_hello greeting_for(const peer_endpoint& peer, const verbs_ends& ends) const;
  bool device_is_well();

  reader_rail& rail_;
  verbs_rail shared_;
  bool owned_ = false; ///< Whether the thread that polls has made itself the device's owner.
  std::optional<verbs::completion_channel> completions_;
  clock::time_point look_again_{};
};

/// Makes the data plane of one rail. `rail` is lent, and outlives the plane.
result<std::unique_ptr<channel_data_plane>> make_verbs_data_plane(reader_rail& rail);

} // namespace peercache::rdma
