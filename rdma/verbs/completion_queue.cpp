#include "rdma/verbs/completion_queue.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <utility>

namespace peercache::rdma::verbs {

result<completion_channel> completion_channel::create(const device& on) {
  on.assert_owned();
  ibv_comp_channel* raw = ::ibv_create_comp_channel(on.context());
  if (raw == nullptr)
    return {errc::out_of_memory,
            "no completion channel on " + on.port().device + ": " + std::strerror(errno)};
  completion_channel channel(on, raw);
  const int flags = ::fcntl(raw->fd, F_GETFL);
  if (flags < 0 || ::fcntl(raw->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return {errc::io_failed, "the completion channel of " + on.port().device +
                                 " cannot be polled: " + std::strerror(errno)};
  return channel;
}

completion_channel::completion_channel(completion_channel&& other) noexcept
    : device_(other.device_), channel_(std::exchange(other.channel_, nullptr)) {}

completion_channel& completion_channel::operator=(completion_channel&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(channel_, other.channel_);
  return *this;
}

completion_channel::~completion_channel() {
  if (channel_ == nullptr)
    return;
  device_->assert_owned();
  // EBUSY means that a completion queue still uses the channel.
  PEERCACHE_ASSERT(::ibv_destroy_comp_channel(channel_) != EBUSY);
}

void completion_channel::drain() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (::ibv_get_cq_event(channel_, &queue, &context) == 0)
    ::ibv_ack_cq_events(queue, 1);
}

result<completion_queue> completion_queue::create(const device& on, std::uint32_t entries,
                                                  completion_channel* channel) {
  on.assert_owned();
  PEERCACHE_ASSERT(entries > 0);
  const std::uint32_t most = on.port().can.completions;
  if (entries > most)
    return {errc::invalid_argument, "a completion queue of " + std::to_string(entries) +
                                        " entries is more than " + on.port().device +
                                        " has: at most " + std::to_string(most)};
  ibv_cq* queue = ::ibv_create_cq(on.context(), static_cast<int>(entries), nullptr,
                                  channel != nullptr ? channel->get() : nullptr, 0);
  if (queue == nullptr)
    return {errc::out_of_memory, "no completion queue of " + std::to_string(entries) +
                                     " entries on " + on.port().device + ": " +
                                     std::strerror(errno)};
  return completion_queue(on, queue);
}

completion_queue::completion_queue(completion_queue&& other) noexcept
    : device_(other.device_), queue_(std::exchange(other.queue_, nullptr)) {}

completion_queue& completion_queue::operator=(completion_queue&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(queue_, other.queue_);
  return *this;
}

completion_queue::~completion_queue() {
  if (queue_ == nullptr)
    return;
  device_->assert_owned();
  // EBUSY means that a queue pair still uses the completion queue.
  PEERCACHE_ASSERT(::ibv_destroy_cq(queue_) != EBUSY);
}

const char* status_name(ibv_wc_status status) noexcept {
  switch (status) {
  case IBV_WC_SUCCESS:
    return "success";
  case IBV_WC_LOC_LEN_ERR:
    return "local length error";
  case IBV_WC_LOC_QP_OP_ERR:
    return "local queue pair error";
  case IBV_WC_LOC_PROT_ERR:
    return "local protection error";
  case IBV_WC_WR_FLUSH_ERR:
    return "flushed";
  case IBV_WC_MW_BIND_ERR:
    return "memory window bind error";
  case IBV_WC_BAD_RESP_ERR:
    return "bad response";
  case IBV_WC_LOC_ACCESS_ERR:
    return "local access error";
  case IBV_WC_REM_INV_REQ_ERR:
    return "remote invalid request";
  case IBV_WC_REM_ACCESS_ERR:
    return "remote access error";
  case IBV_WC_REM_OP_ERR:
    return "remote operation error";
  case IBV_WC_RETRY_EXC_ERR:
    return "retries exceeded";
  case IBV_WC_RNR_RETRY_EXC_ERR:
    return "receiver not ready";
  case IBV_WC_REM_ABORT_ERR:
    return "remote aborted";
  case IBV_WC_FATAL_ERR:
    return "fatal error";
  case IBV_WC_RESP_TIMEOUT_ERR:
    return "response timed out";
  default:
    return "other error";
  }
}

} // namespace peercache::rdma::verbs
