#pragma once

#include "client/read/read_plane.hpp"
#include "common/result.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace peercache::client {

/// A few buffers of the same size that are registered with all rails once, for READs that are small
/// and whose bytes are copied or looked at right away: into them a READ lands without a bounce
/// block and without a registration of its own. Threads: any. Ownership: the plane is lent, and
/// outlives this object; leases end before it. A lease may end when no READ into its buffer is
/// under way, which is so once every batch that names the buffer is complete. Limits:
/// `buffers_max`; when all are taken, `take` returns an empty lease, and the caller does without.
class landing_stock {
public:
  static constexpr std::uint32_t buffers_max = 64;

  /// A buffer that belongs to its holder until the lease ends. Empty: there was none.
  class lease {
  public:
    lease() = default;
    lease(lease&& other) noexcept
        : stock_(std::exchange(other.stock_, nullptr)), index_(other.index_) {}
    lease& operator=(lease&& other) noexcept {
      std::swap(stock_, other.stock_);
      std::swap(index_, other.index_);
      return *this;
    }
    ~lease() {
      if (stock_ != nullptr)
        stock_->give_back(index_);
    }

    explicit operator bool() const noexcept { return stock_ != nullptr; }
    /// The buffer, aligned to a cache line; empty for an empty lease. Its bytes are those of the
    /// holder before.
    std::span<std::byte> bytes() const noexcept {
      return stock_ != nullptr ? stock_->buffer(index_) : std::span<std::byte>{};
    }

  private:
    friend class landing_stock;
    lease(landing_stock& stock, std::uint32_t index) noexcept : stock_(&stock), index_(index) {}

    landing_stock* stock_ = nullptr;
    std::uint32_t index_ = 0;
  };

  /// Allocates the buffers and registers them with `plane`. Errors: `register_buffer`'s.
  /// @param bytes of each buffer, rounded up to whole cache lines
  /// @pre 0 < buffers <= buffers_max; bytes > 0
  static result<std::unique_ptr<landing_stock>> create(read_plane& plane, std::uint32_t buffers,
                                                       std::size_t bytes);
  ~landing_stock();
  landing_stock(const landing_stock&) = delete;
  landing_stock& operator=(const landing_stock&) = delete;

  /// A buffer that nobody has; an empty lease when there is none. Does not block.
  lease take() noexcept;

private:
  struct freed {
    void operator()(std::byte* memory) const noexcept;
  };

  landing_stock(read_plane& plane, std::uint32_t buffers, std::size_t bytes);
  void give_back(std::uint32_t index) noexcept;
  std::span<std::byte> buffer(std::uint32_t index) const noexcept {
    return {memory_.get() + index * bytes_, bytes_};
  }

  read_plane& plane_;
  const std::size_t bytes_; ///< Bytes of one buffer.
  const std::unique_ptr<std::byte[], freed> memory_;
  std::atomic<std::uint64_t> free_; ///< A bit for each buffer that nobody has.
  bool registered_ = false;
};

} // namespace peercache::client
