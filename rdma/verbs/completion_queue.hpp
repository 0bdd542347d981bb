#pragma once

#include "rdma/verbs/device.hpp"

#include <span>

namespace peercache::rdma::verbs {

/// A descriptor that is readable when an armed completion queue has something.
/// Threads: the device's owner. Ownership: outlives its queues.
class completion_channel {
public:
  static result<completion_channel> create(const device& on);
  completion_channel(completion_channel&& other) noexcept;
  completion_channel& operator=(completion_channel&& other) noexcept;
  ~completion_channel();

  /// The channel's descriptor: non-blocking, for epoll.
  int fd() const noexcept { return channel_->fd; }
  ibv_comp_channel* get() const noexcept { return channel_; }
  /// Takes and acknowledges what is there, so that the descriptor is not readable any more.
  void drain() noexcept;

private:
  completion_channel(const device& on, ibv_comp_channel* channel) noexcept
      : device_(&on), channel_(channel) {}
  const device* device_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
};

/// Threads: the device's owner. Ownership: outlives its queue pairs.
class completion_queue {
public:
  /// `channel` may be null: then it can only be polled.
  static result<completion_queue> create(const device& on, std::uint32_t entries,
                                         completion_channel* channel);
  completion_queue(completion_queue&& other) noexcept;
  completion_queue& operator=(completion_queue&& other) noexcept;
  ~completion_queue();

  ibv_cq* get() const noexcept { return queue_; }
  /// Completions that are there now, at most `out.size()`. Negative: the device failed.
  int poll(std::span<ibv_wc> out) noexcept {
    return ibv_poll_cq(queue_, static_cast<int>(out.size()), out.data());
  }
  /// The channel becomes readable at the next completion; what came before it must be polled after
  /// this call.
  bool arm() noexcept { return ibv_req_notify_cq(queue_, 0) == 0; }

private:
  completion_queue(const device& on, ibv_cq* queue) noexcept : device_(&on), queue_(queue) {}
  const device* device_ = nullptr;
  ibv_cq* queue_ = nullptr;
};

/// "remote access error" for a completion's status: the word in logs and metrics.
const char* status_name(ibv_wc_status status) noexcept;

} // namespace peercache::rdma::verbs
