#include "storage/disk/io/posix_disk_io.hpp"

#include "storage/disk/io/piecewise_transfer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/uio.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

ssize_t write_some(int fd, const piecewise_transfer& what) {
  const auto at = static_cast<off_t>(what.offset_bytes());
  if (what.head() == nullptr)
    return ::pwrite(fd, what.memory(), what.bytes(), at);
  const std::array parts = {iovec{what.head(), disk_block_bytes},
                            iovec{what.memory(), what.bytes()}};
  return ::pwritev(fd, parts.data(), parts.size(), at);
}

} // namespace

posix_disk_io::posix_disk_io(opened_folder folder, std::uint32_t queue_depth)
    : folder_disk_io(std::move(folder)), on_way_(std::max(queue_depth, 1u)) {}

bool posix_disk_io::submit(const disk_request& request) {
  check(request);
  if (!on_way_.takes(request))
    return false;
  on_way_.add(request);
  queued_.push_back(request);
  count_request(request.file);
  return true;
}

int posix_disk_io::carry_out(const disk_request& request) const {
  using kind = disk_request::kind;
  const int fd = fd_of(request.file);
  piecewise_transfer transfer(request);
  while (true) {
    const auto at = static_cast<off_t>(transfer.offset_bytes());
    const auto moved = request.what == kind::read
                           ? ::pread(fd, transfer.memory(), transfer.bytes(), at)
                       : request.what == kind::write ? write_some(fd, transfer)
                       : request.what == kind::sync  ? ::fdatasync(fd)
                                                     : ::fsync(fd);
    if (const auto done = transfer.on_result(moved < 0 ? -errno : moved))
      return *done;
  }
}

std::size_t posix_disk_io::reap(std::span<disk_completion> completions) {
  std::size_t count = 0;
  for (; count < completions.size() && !queued_.empty(); ++count) {
    const auto request = queued_.front();
    completions[count] = {request.tag, carry_out(request)};
    queued_.pop_front();
    on_way_.remove(request);
    count_completion(request.file);
  }
  return count;
}

void posix_disk_io::wait(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  // Queued requests are carried out by the next reap, so there is nothing to wait for.
  if (queued_.empty())
    woken_up_.wait_for(lock, std::min<std::chrono::nanoseconds>(at_most, std::chrono::hours(24)),
                       [&] { return woken_; });
  woken_ = false;
}

void posix_disk_io::wake() noexcept {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  woken_up_.notify_one();
}

} // namespace peercache::storage
