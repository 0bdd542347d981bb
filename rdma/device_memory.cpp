#include "rdma/device_memory.hpp"

#include <algorithm>
#include <mutex>

namespace peercache::rdma {
namespace {

/// The first piece of `known` that ends behind `address`.
auto piece_behind(const std::vector<std::span<std::byte>>& known, const std::byte* address) {
  return std::partition_point(known.begin(), known.end(), [address](const auto& piece) {
    return piece.data() + piece.size() <= address;
  });
}

} // namespace

bool device_memory::add(std::span<std::byte> memory) {
  if (!is_of_device(memory.data()))
    return false;
  const std::unique_lock hold(lock_);
  known_.insert(piece_behind(known_, memory.data()), memory);
  return true;
}

void device_memory::remove(const std::byte* begin) {
  const std::unique_lock hold(lock_);
  std::erase_if(known_, [begin](const auto& piece) { return piece.data() == begin; });
}

bool device_memory::holds(const std::byte* address) const noexcept {
  const std::shared_lock hold(lock_);
  const auto found = piece_behind(known_, address);
  return found != known_.end() && found->data() <= address;
}

} // namespace peercache::rdma
