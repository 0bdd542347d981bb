#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// A verbs provider in the test's own process. A program that links the object library
/// peercache_fake_verbs has its ibv_* functions instead of libibverbs': the code under test posts,
/// polls and waits as it does on hardware, and the test says what the hardware does.
///
/// The provider is as strict as the strictest device that we know: limits are exactly those that
/// were granted, a slot of a send queue is free again when a signalled completion at or after it
/// was polled, any fault moves the queue pair to the error state, and destroying objects in the
/// wrong order is noted.
namespace peercache::tests {

struct fake_gid {
  std::array<std::uint8_t, 16> gid{}; ///< The bytes of the GID; all zero means an empty entry.
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};
/// The GID of the IPv4 address 10.0.`subnet`.`host`: ::ffff:10.0.`subnet`.`host`
fake_gid ipv4_gid(std::uint8_t subnet, std::uint8_t host, ibv_gid_type type = IBV_GID_TYPE_ROCE_V2);
/// The GID `prefix`::`host`, for example with 0xfe80 (link-local) or 0x2001.
fake_gid ipv6_gid(std::uint16_t prefix, std::uint8_t host,
                  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2);

struct fake_port {
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool infiniband = false;
  std::uint32_t mtu_bytes = 4096;
  std::uint32_t message_bytes_max = 8 << 20;
  std::uint16_t lid = 0;
  std::uint8_t width = 2;  ///< Width of the link as verbs numbers it: 2 means 4 lanes.
  std::uint8_t speed = 64; ///< Speed of a lane as verbs numbers it: 64 means 50 Gbit/s.
  std::vector<fake_gid> gids;
};

struct fake_device {
  std::string name;
  std::vector<fake_port> ports;
  std::int32_t numa_node = -1;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  int send_depth_max = 1024;
  int sge_max = 30;
  /// Pieces of memory of one READ (max_sge_rd); 0: the provider does not say.
  int sge_of_read_max = 0;
  int completions_max = 4096;
  int initiator_depth = 16;
  int responder_depth = 16;
  std::uint64_t region_bytes_max = UINT64_MAX;
  /// Limit of the bytes of all regions together; a registration beyond it fails with ENOMEM.
  std::uint64_t memlock_bytes = UINT64_MAX;
  bool has_windows = true; ///< Whether the device has memory windows of type 2B.
  /// Memory windows at a time (max_mw); 0: no limit, and the provider does not say.
  int windows_max = 0;
  /// The longest memory window that can be bound: that of libmlx5, which has the least.
  std::uint64_t window_bytes_max = std::uint64_t{1} << 31;
  bool has_dmabuf = false; ///< Whether dmabufs can be registered; a memfd stands for one.
  /// Whether verbs tells the types of GIDs; if not, they are in sysfs only.
  bool has_gid_types = true;
  int open_error = 0;
};
/// A RoCE device as most are: the GID table has link-local GIDs, then 10.0.`subnet`.`host`, each as
/// RoCE v1 and v2.
fake_device roce_device(std::string name, std::uint8_t host, std::uint8_t subnet = 0);
fake_device infiniband_device(std::string name, std::uint16_t lid);

/// Rights that our code never asks for; tests need them to show that the fake checks rights.
inline constexpr unsigned remote_write_right = 1U << 1;
inline constexpr unsigned remote_atomic_right = 1U << 3;

/// A work request that is about to be carried out.
struct fake_work {
  std::uint32_t queue_pair = 0; ///< Number of the requester's queue pair.
  std::uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
  bool fenced = false;
  std::uint64_t remote_address = 0;
  std::uint64_t bytes = 0;
};

struct fake_queue_pair {
  std::string device;
  ibv_qp_state state = IBV_QPS_RESET;
  ibv_qp_attr attributes{}; ///< All attributes of the queue pair that were set so far.
  ibv_qp_cap granted{};
};

struct fake_region {
  std::string device;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
  unsigned rights = 0;
  bool by_dmabuf = false; ///< Whether a dmabuf names the memory, and not its address.
};

/// A memory window that is bound.
struct fake_window {
  std::string device;
  std::uint32_t key = 0;
  std::uint32_t queue_pair = 0; ///< Number of the queue pair that it is bound to.
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  unsigned rights = 0;
};

struct fake_counts {
  std::uint64_t doorbells = 0;     ///< Calls of post_send.
  std::uint64_t work_requests = 0; ///< Work requests that were taken.
  std::uint64_t reads = 0;         ///< READs that were posted.
  std::uint64_t read_bytes = 0;    ///< Bytes of the READs that were posted.
  std::uint64_t fenced = 0;        ///< READs with a fence that were posted.
  std::uint64_t signaled = 0;      ///< Signalled work requests that were posted.
  std::uint64_t served_bytes = 0;  ///< Bytes that were READ from this device's regions.
  std::uint64_t polled = 0;        ///< Completions that were polled.
  std::uint64_t registrations = 0; ///< Memory regions that were ever registered.
  std::uint64_t queue_pairs = 0;   ///< Queue pairs that were ever made.
  std::uint64_t bindings = 0;      ///< Memory windows that were ever bound.
};

/// How many verbs objects exist now.
struct fake_objects {
  std::size_t contexts = 0;
  std::size_t domains = 0;
  std::size_t regions = 0;
  std::size_t channels = 0;
  std::size_t completion_queues = 0;
  std::size_t queue_pairs = 0;
  std::size_t windows = 0;
  bool none() const noexcept {
    return contexts + domains + regions + channels + completion_queues + queue_pairs + windows == 0;
  }
};

enum class fake_call : std::uint8_t {
  open_device,
  query_device,
  query_port,
  alloc_pd,
  register_memory,
  end_region, ///< The region has ended all the same.
  allocate_window,
  end_window,  ///< The window has ended all the same.
  bind_window, ///< Any error here is MW_BIND_ERR to whoever polls.
  create_channel,
  create_completion_queue,
  create_queue_pair,
  to_init,
  to_ready_to_receive,
  to_ready_to_send,
  post_send,
  poll
};

/// All devices and what connects them. A process has one fabric at a time; without one it has no
/// devices. Work is carried out as soon as it is due and not held: in the thread that posts, polls,
/// arms or moves the clock. Without delays that is inside `ibv_post_send`.
/// Threads: any, but for the hooks, which run one at a time without the fabric's lock held.
/// Ownership: outlives all verbs objects; its destructor aborts when one is left. Units: time is
/// the fabric's own and moves by `advance` only. The same seed and the same calls give the same
/// run.
class fake_fabric {
public:
  using duration = std::chrono::nanoseconds;
  using hook = std::function<void(const fake_work&)>;

  explicit fake_fabric(std::uint64_t seed = 1);
  ~fake_fabric();
  fake_fabric(const fake_fabric&) = delete;
  fake_fabric& operator=(const fake_fabric&) = delete;

  // Methods for devices and cables.
  void add(fake_device device);
  /// Makes `ibv_get_device_list` fail with this error, as in a kernel without verbs (ENOSYS).
  void fail_listing(int error);
  /// Makes the next `times` calls of this kind fail with this error.
  void fail(fake_call what, int error, unsigned times = 1);

  // Methods for the times at which work is carried out.
  void advance(duration by);
  duration now() const;
  /// Gives each work request that is posted from now on a random delay from `least` to `most`.
  void set_delay(duration least, duration most);
  /// Sets the time until a work request that nobody answers is given up with RETRY_EXC.
  void set_retry_delay(duration delay);
  /// Lets READs be carried out in a random order, which the seed decides; a fenced READ comes after
  /// all READs posted before it. Completions still come in the order of posting.
  void set_reorder(bool on);
  /// Holds all work from now on: only `step` carries some out.
  void hold();
  void release();
  /// Carries out at most `count` work requests in the order in which they are due; returns their
  /// number.
  std::size_t step(std::size_t count = 1);
  /// How many work requests are posted and not carried out.
  std::size_t waiting() const;

  // Hooks, called in the thread that carries out work; a null hook removes the one that was set.
  void before_each(hook what);
  /// Sets the hook that is called when half of a work request's bytes are in place.
  void in_the_middle(hook what);

  // Methods for faults. `set_port_state` and `break_device` tell the device's open contexts by an
  // asynchronous event.
  void set_port_state(const std::string& device, std::uint8_t port, ibv_port_state state);
  /// Breaks a device: its queue pairs flush, and later posting and creating fails with EIO.
  void break_device(const std::string& device);
  /// Gives a queue pair all rights to what its other end asks for.
  void open_rights(std::uint32_t queue_pair);
  /// Whether completions of a destroyed queue pair stay in the queue (as rxe does, the default) or
  /// are cleaned out (as mlx5 does).
  void keep_completions_of_destroyed(bool keep);

  // Methods for the record of the work done.
  std::optional<fake_queue_pair> queue_pair(std::uint32_t number) const;
  std::vector<fake_region> regions() const;
  std::vector<fake_window> windows() const;
  fake_counts counts(const std::string& device) const;
  fake_objects objects() const;
  /// The misuses that devices do not forgive, or only by luck: one sentence for each.
  std::vector<std::string> misuse() const;

  /// Switches to a simulation for measuring posting and polling: no byte is moved, nothing is
  /// checked, and READs of a device complete one after the other at the given rate and after the
  /// given latency, by the steady clock, when they are polled for (there are no completion events).
  void simulate_rails(double bytes_per_second, duration latency);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace peercache::tests
