#pragma once

#include "common/assert.hpp"
#include "common/result.hpp"

#include <array>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace peercache::rdma::verbs {

enum class link_layer : std::uint8_t { ethernet, infiniband };

/// A port's address: the 16 bytes of an `ibv_gid`, network order.
using gid_bytes = std::array<std::uint8_t, 16>;

/// The capabilities of one end of a connection; each connection has the minimum of its two ends.
struct capabilities {
  std::uint32_t send_depth = 0;  ///< Work requests that a queue pair holds (`max_qp_wr`).
  std::uint32_t completions = 0; ///< The longest completion queue (`max_cqe`).
  std::uint32_t sge = 0; ///< Pieces of memory that one READ fills (`max_sge_rd`, else `max_sge`).
  std::uint32_t message_bytes = 0; ///< The longest READ (the port's `max_msg_sz`).
  /// READs in flight that this end may start (`max_qp_init_rd_atom`).
  std::uint8_t initiator_depth = 0;
  std::uint8_t responder_depth = 0; ///< READs in flight that this end answers (`max_qp_rd_atom`).
  std::uint32_t mtu_bytes = 0;      ///< The port's active MTU.
  std::uint64_t region_bytes = 0;   ///< The largest memory region (`max_mr_size`).
  bool windows = false;             ///< Whether the device has memory windows of type 2B.
  /// Memory windows that the device has at a time (`max_mw`); 0: it does not say.
  std::uint32_t windows_max = 0;
};

struct port_choice {
  std::uint8_t port = 0; ///< Number of the port; 0: the device's first active port.
  /// Index into the port's GID table; -1: chosen as `choose_gid` says.
  std::int32_t gid_index = -1;
};

/// One port of one device, and whether it can carry READs.
struct port_report {
  std::string device; ///< Name of the device, like "mlx5_0".
  std::uint8_t port = 0;
  bool usable = false;
  std::string why_not; ///< Why the port cannot be used, and what to do; empty when it is usable.
  std::string state;   ///< State of the port: "active", "down" and others.
  link_layer layer = link_layer::ethernet;
  /// Width × speed of the link; 0 when the provider does not say.
  std::uint64_t bits_per_second = 0;
  std::int32_t numa_node = -1; ///< NUMA node of the device; -1: unknown.
  std::int32_t gid_index = -1;
  gid_bytes gid{};
  std::uint16_t lid = 0;
  std::string gid_type; ///< Kind of the GID: "RoCE v2" or "IB".
  capabilities can;
};

/// The ports of all devices of this host. An empty list is not an error; `why_none` says why when
/// the host has no device, or its kernel no verbs.
struct device_listing {
  std::vector<port_report> ports;
  std::string why_none;
};
device_listing list_ports(const port_choice& choice = {});

/// An entry of a port's GID table.
struct gid_entry {
  std::int32_t index = 0;
  gid_bytes gid{};
  enum class kind : std::uint8_t { infiniband, roce_v1, roce_v2 } type = kind::roce_v2;
};
/// The index of the GID entry that reaches furthest: RoCE v2 with an IPv4-mapped address, then RoCE
/// v2 with a global IPv6 address, then RoCE v2 link-local; on InfiniBand entry 0, because the LID
/// is used for addressing. RoCE v1 is never chosen: it is not routable, and mixed fabrics drop it.
/// -1: no entry fits.
std::int32_t choose_gid(link_layer layer, const std::vector<gid_entry>& table) noexcept;
bool is_ipv4_mapped(const gid_bytes& gid) noexcept;
/// Text of a GID ("::ffff:10.0.0.1"), as `show_gids` prints it.
std::string to_string(const gid_bytes& gid);

/// An open device with one port and one protection domain: queue pairs, completion queues and
/// memory regions of one rail are made from it. Threads: belongs to the thread that opened it,
/// until another one calls `own`; creating, connecting and destroying a verbs object of the device
/// asserts that. When the owning thread has ended, the thread that destroys its verbs objects calls
/// `own` first. Ownership: outlives all objects made from it. Errors: `open` says what went wrong,
/// why, and what to do.
class device {
public:
  static result<std::unique_ptr<device>> open(const std::string& name, const port_choice& choice);
  ~device();
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  const port_report& port() const noexcept { return port_; }
  ibv_context* context() const noexcept { return context_; }
  ibv_pd* domain() const noexcept { return domain_; }

  /// Makes the calling thread the only one that touches verbs objects of the device, except memory
  /// regions: verbs allows any thread to register memory (see memory_region).
  void own() noexcept { owner_ = std::this_thread::get_id(); }
  void assert_owned() const noexcept { PEERCACHE_ASSERT(owner_ == std::this_thread::get_id()); }

  /// A descriptor that is readable when the device or a queue pair has something to report.
  int async_fd() const noexcept { return context_->async_fd; }
  /// A report of the device about itself, the port of this object or a queue pair.
  struct async_event {
    std::string name;          ///< Text of the report ("port down"); empty: there was none.
    bool fatal = false;        ///< The device or this object's port can no longer be used.
    bool port_is_back = false; ///< This object's port, which was down, can be used again.
    /// Number of the queue pair that the report is about; 0: about none.
    std::uint32_t queue_pair = 0;
  };
  /// Takes the next report of the device without blocking.
  async_event next_event();

private:
  device() = default;

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  port_report port_;
  std::thread::id owner_ = std::this_thread::get_id();
};

} // namespace peercache::rdma::verbs
