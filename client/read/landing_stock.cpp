#include "client/read/landing_stock.hpp"

#include "common/assert.hpp"

#include <bit>
#include <new>

namespace peercache::client {

namespace {

/// Alignment of each buffer: two buffers never share a cache line.
constexpr std::size_t landing_line_bytes = 64;
/// Alignment of all buffers together: registration pins whole pages of memory.
constexpr std::align_val_t landing_alignment{4096};

std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + landing_line_bytes - 1) / landing_line_bytes * landing_line_bytes;
}

} // namespace

void landing_stock::freed::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, landing_alignment);
}

landing_stock::landing_stock(read_plane& plane, std::uint32_t buffers, std::size_t bytes)
    : plane_(plane), bytes_(whole_lines(bytes)),
      memory_(new (landing_alignment) std::byte[buffers * bytes_]{}),
      free_(~std::uint64_t{0} >> (buffers_max - buffers)) {}

landing_stock::~landing_stock() {
  if (registered_)
    plane_.unregister_buffer(memory_.get());
}

result<std::unique_ptr<landing_stock>>
landing_stock::create(read_plane& plane, std::uint32_t buffers, std::size_t bytes) {
  PEERCACHE_ASSERT(buffers > 0 && buffers <= buffers_max && bytes > 0);
  std::unique_ptr<landing_stock> made{new landing_stock(plane, buffers, bytes)};
  auto registered = plane.register_buffer({made->memory_.get(), buffers * made->bytes_});
  if (!registered)
    return registered.error();
  made->registered_ = true;
  return made;
}

landing_stock::lease landing_stock::take() noexcept {
  auto free = free_.load(std::memory_order_relaxed);
  while (free != 0) {
    // What the holder before did with the buffer happens before its new holder has it.
    if (free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire,
                                    std::memory_order_relaxed))
      return {*this, static_cast<std::uint32_t>(std::countr_zero(free))};
  }
  return {};
}

void landing_stock::give_back(std::uint32_t index) noexcept {
  const auto bit = std::uint64_t{1} << index;
  const auto before = free_.fetch_or(bit, std::memory_order_release);
  PEERCACHE_ASSERT((before & bit) == 0); // Each buffer is given back once.
}

} // namespace peercache::client
