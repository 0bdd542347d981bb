#pragma once

#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <unordered_map>

/// The insides of the fake provider: verbs objects with what the hardware would know about them.
/// Threads: everything here is used with the fabric's lock held.
namespace peercache::tests {

using nanoseconds = std::chrono::nanoseconds;
using guard = std::unique_lock<std::mutex>;

struct device_state;
struct queue_state;

/// An event descriptor that is readable once per event.
class event_fd {
public:
  event_fd();
  ~event_fd();
  event_fd(const event_fd&) = delete;
  event_fd& operator=(const event_fd&) = delete;
  int get() const noexcept { return fd_; }
  void raise() noexcept;
  /// Takes one event off the descriptor; blocks unless the descriptor is non-blocking. False when
  /// no event was taken; errno says why.
  static bool take(int fd) noexcept;

private:
  int fd_;
};

struct context_state : verbs_context {
  context_state() : verbs_context{} {}
  device_state* device = nullptr;
  event_fd events;
  std::deque<ibv_async_event> pending;
  /// Number of protection domains, channels and completion queues of the context.
  std::size_t children = 0;
};

struct domain_state : ibv_pd {
  std::size_t children = 0; ///< Number of memory regions, windows and queue pairs of the domain.
};

struct region_state : ibv_mr {
  std::byte* memory = nullptr; ///< Memory of this process that the region's `address` stands for.
  std::uint64_t address = 0;
  unsigned rights = 0;
  void* mapping = nullptr; ///< The mapping of a dmabuf's memory.
  std::size_t mapping_bytes = 0;
};

struct window_state : ibv_mw {
  std::uint32_t key = 0; ///< The key as it is now; `rkey` stays that of the allocation.
  const region_state* region = nullptr; ///< Null: not bound, and the members below say nothing.
  std::uint32_t queue_pair = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  unsigned rights = 0;
};

struct completion_state;

struct channel_state : ibv_comp_channel {
  event_fd events;
  std::deque<completion_state*> pending;
};

struct completion_entry {
  ibv_wc completion{};
  /// The queue pair of the completion; null when the queue pair has been destroyed since.
  queue_state* queue = nullptr;
  std::uint64_t sequence = 0;
};

struct completion_state : ibv_cq {
  std::deque<completion_entry> entries;
  bool armed = false;
  bool overrun = false;
  unsigned unacknowledged = 0;
  std::vector<queue_state*> queues; ///< Queue pairs whose completions come into this queue.
};

struct work_state {
  std::uint64_t wr_id = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bind_bytes = 0; ///< Length of the window that is bound.
  std::uint64_t order = 0; ///< Number of the request in the order of posting, over all queue pairs.
  nanoseconds due{};
  std::uint32_t remote_key = 0; ///< The key of a binding's window before it is bound.
  std::uint32_t new_key = 0;
  std::uint32_t region_key = 0;
  unsigned bind_rights = 0;
  std::uint32_t pieces = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
  unsigned flags = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  bool carried_out = false;
  bool retrying = false;
};

/// A queue pair. Its work requests are numbered: `freed` <= `completed` <= `posted`, and their
/// slots in the ring are reused.
struct queue_state : ibv_qp {
  device_state* device = nullptr;
  ibv_qp_attr attributes{};
  ibv_qp_cap granted{};
  std::vector<work_state> ring;
  std::vector<ibv_sge> pieces;
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  std::uint64_t freed = 0;
  /// Packet numbers that this end has used up as the responder.
  std::uint64_t packets_answered = 0;
  bool signal_all = false;

  /// The place of the request with this number in the ring, whose size is a power of two.
  std::size_t slot(std::uint64_t sequence) const noexcept { return sequence & (ring.size() - 1); }
  work_state& at(std::uint64_t sequence) noexcept { return ring[slot(sequence)]; }
  ibv_sge* pieces_of(std::uint64_t sequence) noexcept {
    return pieces.data() + slot(sequence) * granted.max_send_sge;
  }
};

struct device_state {
  fake_device setup;
  ibv_device device{};
  std::set<context_state*> contexts;
  fake_counts counts;
  std::uint64_t locked_bytes = 0;
  bool broken = false;
  nanoseconds busy_until{}; ///< When the rail has sent all READs that were posted so far, in a
                            ///< simulation of rails.
};

struct fault {
  int error = 0;
  unsigned times = 0;
};

struct simulation {
  bool on = false;
  double bytes_per_second = 0;
  nanoseconds latency{};
};

struct fabric_state {
  mutable std::mutex lock;
  std::mt19937_64 random;
  std::vector<std::unique_ptr<device_state>> devices;
  int listing_error = 0;
  std::map<fake_call, fault> faults;

  nanoseconds now{};
  nanoseconds delay_least{};
  nanoseconds delay_most{};
  nanoseconds retry_delay{};
  bool reorder = false;
  bool held = false;
  std::size_t allowance = 0; ///< Work requests that may be carried out although work is held.
  bool carrying_out = false;
  bool keep_completions = true;
  simulation rails;
  fake_fabric::hook before_each;
  fake_fabric::hook in_the_middle;

  std::map<std::uint32_t, queue_state*> queues; ///< Queue pairs, by number.
  std::unordered_map<std::uint32_t, region_state*> local_keys;
  std::unordered_map<std::uint32_t, region_state*> remote_keys;
  std::unordered_map<std::uint32_t, window_state*> windows; ///< All windows, by key.
  fake_objects objects;
  std::vector<std::string> misuse;
  std::string sysfs; ///< The test's folder that stands for /sys/class/infiniband.
  std::uint32_t last_number = 16;
  std::uint32_t last_key = 0;
  std::uint64_t last_order = 0;

  /// The error that a test has ordered for this call; 0 when none was ordered.
  int next_fault(fake_call what);
  device_state* find(const std::string& name);
  void tell(context_state& context, const ibv_async_event& event);
};

/// The fabric that ibv_* functions work on; null when a test has none.
fabric_state* current_fabric();
fabric_state& fabric();

inline context_state& state_of(ibv_context* context) {
  return *static_cast<context_state*>(verbs_get_ctx(context));
}
inline domain_state& state_of(ibv_pd* domain) {
  return *static_cast<domain_state*>(domain);
}
inline region_state& state_of(ibv_mr* region) {
  return *static_cast<region_state*>(region);
}
inline queue_state& state_of(ibv_qp* pair) {
  return *static_cast<queue_state*>(pair);
}
inline completion_state& state_of(ibv_cq* queue) {
  return *static_cast<completion_state*>(queue);
}
inline channel_state& state_of(ibv_comp_channel* channel) {
  return *static_cast<channel_state*>(channel);
}

// Functions in carry_out.cpp: the hardware's actions.

/// Carries out all work requests that are due. Releases the lock while a hook runs.
void carry_out_due(fabric_state& fabric, guard& held);
/// When the next work request is due; nothing when no request waits, or when work is held.
std::optional<nanoseconds> next_due(fabric_state& fabric);
std::size_t waiting_work(fabric_state& fabric);
/// Moves a queue pair to the error state, which flushes its requests.
void fail_queue(fabric_state& fabric, queue_state& queue);
/// Completes, in the order of posting, the work requests that were carried out.
void complete_in_order(fabric_state& fabric, queue_state& queue);

// Functions in transfer.cpp: the access checks and the bytes.

bool reachable(fabric_state& fabric, const queue_state& requester);
/// The error with which the access of a work request ends, or success.
ibv_wc_status check_access(fabric_state& fabric, queue_state& requester, std::uint64_t sequence);
/// Moves the bytes of [first, last) of a work request.
void transfer(fabric_state& fabric, queue_state& requester, std::uint64_t sequence,
              std::uint64_t first, std::uint64_t last);

// Functions in ibv_windows.cpp.

ibv_mw* allocate_window(ibv_pd* domain, ibv_mw_type type);
int free_window(ibv_mw* window);
/// Carries out a work request that binds a window.
ibv_wc_status bind_window(fabric_state& fabric, queue_state& queue, std::uint64_t sequence);
bool has_windows(const fabric_state& fabric, const region_state& region);
/// Ends the windows of a queue pair that goes before them, which is a misuse.
void unbind_windows(fabric_state& fabric, const queue_state& queue);

// Functions that `ibv_context_ops` points to: posting and polling.

int post_send(ibv_qp* pair, ibv_send_wr* chain, ibv_send_wr** first_bad);
int poll_completions(ibv_cq* queue, int count, ibv_wc* out);
int request_notification(ibv_cq* queue, int solicited_only);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t out_bytes);

} // namespace peercache::tests
