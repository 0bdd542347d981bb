#include "rdma/verbs/memory_window.hpp"

#include "common/assert.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace peercache::rdma::verbs {

namespace {

error no_window(const ibv_mr& region, int number) {
  const std::string what = std::string("no memory window on ") +
                           ::ibv_get_device_name(region.context->device) + ": " +
                           std::strerror(number);
  // Drivers answer ENOMEM, EINVAL or EAGAIN when the device has no more windows.
  return {errc::out_of_memory, what + "; the device may have no more of them, as each reader takes "
                                      "one for each chunk: rdma.windows = false needs none"};
}

} // namespace

bool is_revoked(int error_number) noexcept {
  return error_number == 0 || error_number == EIO || error_number == ENODEV;
}

memory_window::memory_window(memory_window&& other) noexcept
    : of_(std::move(other.of_)), window_(std::exchange(other.window_, nullptr)),
      remote_key_(other.remote_key_) {}

memory_window& memory_window::operator=(memory_window&& other) noexcept {
  std::swap(of_, other.of_);
  std::swap(window_, other.window_);
  std::swap(remote_key_, other.remote_key_);
  return *this;
}

memory_window::~memory_window() {
  if (window_ != nullptr)
    of_->end(window_);
}

result<memory_window> region_windows::bind(queue_pair& to, std::uint64_t wr_id) {
  const std::lock_guard lock(mutex_);
  if (region_ == nullptr)
    return {errc::not_found, "the memory is no longer registered"};
  ibv_mw* made = ::ibv_alloc_mw(region_->pd, IBV_MW_TYPE_2);
  if (made == nullptr)
    return no_window(*region_, errno);
  ibv_send_wr binding{};
  binding.wr_id = wr_id;
  binding.opcode = IBV_WR_BIND_MW;
  binding.send_flags = IBV_SEND_SIGNALED;
  binding.bind_mw.mw = made;
  binding.bind_mw.rkey = ::ibv_inc_rkey(made->rkey);
  binding.bind_mw.bind_info = {region_, address_, region_->length, IBV_ACCESS_REMOTE_READ};
  ibv_send_wr* refused = nullptr;
  if (const int number = to.post(&binding, &refused); number != 0) {
    ::ibv_dealloc_mw(made);
    return error{errc::io_failed,
                 std::string("a memory window cannot be bound: ") + std::strerror(number)};
  }
  windows_.insert(made);
  return memory_window(shared_from_this(), made, binding.bind_mw.rkey);
}

void region_windows::end(ibv_mw* window) noexcept {
  const std::lock_guard lock(mutex_);
  if (windows_.erase(window) != 0)
    PEERCACHE_ASSERT(is_revoked(::ibv_dealloc_mw(window)));
}

void region_windows::close() noexcept {
  while (end_slice())
    std::this_thread::yield();
}

/// Ends some of the windows, so that the rail's thread never waits for all; false when none is
/// left.
bool region_windows::end_slice() noexcept {
  constexpr int slice = 16;
  const std::lock_guard lock(mutex_);
  region_ = nullptr;
  for (int ended = 0; ended < slice && !windows_.empty(); ++ended) {
    PEERCACHE_ASSERT(is_revoked(::ibv_dealloc_mw(*windows_.begin())));
    windows_.erase(windows_.begin());
  }
  return !windows_.empty();
}

} // namespace peercache::rdma::verbs
