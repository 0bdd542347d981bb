#pragma once

#include "rdma/verbs/completion_queue.hpp"
#include "rdma/verbs/device.hpp"
#include "rdma/verbs/path_options.hpp"

#include <optional>

namespace peercache::rdma::verbs {

/// Refuses a time-out with which a dead peer may show only after 4 s, a `timeout` of 0 or a number
/// of retries of 7, which both mean for ever, and values that do not fit into a packet; the message
/// says what is allowed.
result<void> check(const path_options& options);

/// How one end of a connection reaches the other end: the values that both ends have agreed on.
struct path {
  std::uint32_t remote_queue_pair = 0; ///< Number of the other end's queue pair, 24 bits.
  std::uint32_t remote_psn = 0; ///< First packet sequence number of the other end, 24 random bits.
  std::uint32_t own_psn = 0;
  gid_bytes remote_gid{};
  std::uint16_t remote_lid = 0;
  std::uint32_t mtu_bytes = 1024;
  std::uint8_t initiator_depth = 1; ///< Most READs that this end has in flight.
  std::uint8_t responder_depth = 1; ///< READs of the other end that this end answers at a time.
};

enum class queue_pair_use : std::uint8_t {
  reader, ///< The end that starts READs; the other end gets no right to its memory.
  server  ///< The end that answers READs: its queue pair allows REMOTE_READ and no other access.
};

/// A reliable connection. RESET → INIT at creation, then `connect` → RTR → RTS.
/// Threads: the device's owner. Ownership: its completion queue outlives it. After the destructor
/// no further byte of a READ that this queue pair started arrives, so that the memory may be given
/// back.
class queue_pair {
public:
  static result<queue_pair> create(const device& on, completion_queue& completions,
                                   queue_pair_use use, std::uint32_t send_depth, std::uint32_t sge);
  queue_pair(queue_pair&& other) noexcept;
  queue_pair& operator=(queue_pair&& other) noexcept;
  ~queue_pair() { reset(); }

  /// Takes the queue pair from INIT over RTR to RTS, which makes it ready for READs.
  result<void> connect(const path& to, const path_options& options);
  std::uint32_t number() const noexcept { return pair_->qp_num; }
  ibv_qp* get() const noexcept { return pair_; }
  /// The sequence number of the next packet that should arrive: when it differs from an earlier
  /// call's, the other end has read meanwhile. One system call. Nothing when the device does not
  /// tell the number.
  std::optional<std::uint32_t> expected_psn() const noexcept;
  /// Posts a chain of work requests. Returns 0 or an error number; on failure `first_bad` is the
  /// first request that the device did not take.
  int post(ibv_send_wr* chain, ibv_send_wr** first_bad) noexcept {
    return ibv_post_send(pair_, chain, first_bad);
  }
  /// Makes the queue pair answer nothing more, and send nothing more.
  void stop() noexcept;
  void reset() noexcept;
  explicit operator bool() const noexcept { return pair_ != nullptr; }

private:
  queue_pair(const device& on, ibv_qp* pair) noexcept : device_(&on), pair_(pair) {}
  const device* device_ = nullptr;
  ibv_qp* pair_ = nullptr;
};

/// A first packet sequence number: 24 random bits from the kernel.
std::uint32_t random_psn();

} // namespace peercache::rdma::verbs
