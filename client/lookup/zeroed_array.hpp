#pragma once

#include <cstddef>
#include <sys/mman.h>
#include <type_traits>
#include <utility>

namespace peercache::client {

/// An array of zeros whose memory is taken from the system when it is first touched. Ownership: the
/// array unmaps its memory. Errors: an array for which there is no room is null.
template <class T>
class zeroed_array {
  static_assert(std::is_trivially_destructible_v<T>, "elements are never destroyed");

public:
  zeroed_array() noexcept = default;
  explicit zeroed_array(std::size_t count) noexcept : bytes_(count * sizeof(T)) {
    auto* const memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return;
    elements_ = static_cast<T*>(memory);
  }
  ~zeroed_array() {
    if (elements_ != nullptr)
      ::munmap(elements_, bytes_);
  }
  zeroed_array(zeroed_array&& other) noexcept
      : elements_(std::exchange(other.elements_, nullptr)), bytes_(other.bytes_) {}
  zeroed_array& operator=(zeroed_array&& other) noexcept {
    std::swap(elements_, other.elements_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  explicit operator bool() const noexcept { return elements_ != nullptr; }
  T& operator[](std::size_t index) const noexcept { return elements_[index]; }

private:
  T* elements_ = nullptr;
  std::size_t bytes_ = 0;
};

} // namespace peercache::client
