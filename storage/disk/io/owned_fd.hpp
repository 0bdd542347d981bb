#pragma once

#include <unistd.h>
#include <utility>

namespace peercache::storage {

/// A file descriptor; the destructor closes it.
class owned_fd {
public:
  explicit owned_fd(int fd = -1) noexcept : fd_(fd) {}
  owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  owned_fd& operator=(owned_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~owned_fd() {
    if (fd_ >= 0)
      ::close(fd_);
  }

  int get() const noexcept { return fd_; }
  /// Gives the descriptor to the caller, who closes it.
  int release() noexcept { return std::exchange(fd_, -1); }
  explicit operator bool() const noexcept { return fd_ >= 0; }

private:
  int fd_;
};

} // namespace peercache::storage
