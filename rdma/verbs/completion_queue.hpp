#pragma once

#include "rdma/verbs/device.hpp"

#include <span>

namespace peercache::rdma::verbs {

/// A descriptor that is readable when an armed completion queue has a completion.
/// Threads: the device's owner. Ownership: outlives the completion queues that were made with it.
class completion_channel {
public:
  static result<completion_channel> create(const device& on);
  completion_channel(completion_channel&& other) noexcept;
  completion_channel& operator=(completion_channel&& other) noexcept;
  ~completion_channel();

  /// The channel's descriptor: non-blocking, for epoll.
  int fd() const noexcept { return channel_->fd; }
  ibv_comp_channel* get() const noexcept { return channel_; }
  /// Takes and acknowledges all pending events, so that the descriptor is no longer readable.
  void drain() noexcept;

private:
  completion_channel(const device& on, ibv_comp_channel* channel) noexcept
      : device_(&on), channel_(channel) {}
  const device* device_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
};

/// The queue in which a device reports which work requests are done. Threads: the device's owner.
/// Ownership: outlives its queue pairs.
class completion_queue {
public:
  /// Makes a queue of `entries`. `channel` may be null; then the queue can be polled, but not
  /// armed.
  static result<completion_queue> create(const device& on, std::uint32_t entries,
                                         completion_channel* channel);
  completion_queue(completion_queue&& other) noexcept;
  completion_queue& operator=(completion_queue&& other) noexcept;
  ~completion_queue();

  ibv_cq* get() const noexcept { return queue_; }
  /// Takes the pending completions, at most `out.size()`; returns their number. A negative result
  /// means that the device failed.
  int poll(std::span<ibv_wc> out) noexcept {
    return ibv_poll_cq(queue_, static_cast<int>(out.size()), out.data());
  }
  /// Makes the completion channel readable at the next completion. Completions that came before
  /// this call make no event, so the caller polls once more after it.
  bool arm() noexcept { return ibv_req_notify_cq(queue_, 0) == 0; }

private:
  completion_queue(const device& on, ibv_cq* queue) noexcept : device_(&on), queue_(queue) {}
  const device* device_ = nullptr;
  ibv_cq* queue_ = nullptr;
};

/// Text of a completion's status ("remote access error"), as logs and metrics name it.
const char* status_name(ibv_wc_status status) noexcept;

} // namespace peercache::rdma::verbs
