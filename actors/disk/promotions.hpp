#pragma once

#include "common/page_key.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::actors {

/// Keeps which requests wait for which page of the disk. Each page is on its way at most once,
/// however many ask for it, and the bytes on their way are bounded.
///
/// Threads: none; the owner serializes. Time comes as an argument, in milliseconds of any clock.
/// Invariant: each job that was started is on its way until `finish`.
class promotions {
public:
  explicit promotions(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// A page that has to be read now.
  struct job {
    page_key key;
    std::uint32_t length_bytes = 0;
    bool warm = false; ///< No request waits for the page.
  };

  enum class answer : std::uint8_t {
    queued,
    joined, ///< The page is queued or on its way already.
    refused ///< Too many pages or bytes are queued, or too many requests wait for this page.
  };

  /// Asks for a page from disk. @param waiter name of the request, which `finish` returns; nothing
  /// for a page that is only to be warmed, which is refused while requests wait @param until when
  /// the request will have given up
  answer ask(const page_key& key, std::uint32_t length_bytes, std::optional<std::uint64_t> waiter,
             std::uint64_t until);

  /// Call when the page is in the pool, or cannot be had. Returns the waiters for it.
  std::vector<std::uint64_t> finish(const page_key& key);

  /// Starts queued pages in the order of asking, at most `count`, as far as there is room. Pages
  /// that all waiters have given up are dropped.
  std::vector<job> start_next(std::uint64_t now, std::size_t count);

  /// Most waiters for one page. Waiters that have given up count until the page is decided, so a
  /// device that hangs does not let their number grow.
  static constexpr std::size_t waiters_max = 65'536;

  /// Most pages queued or on their way. A limit on bytes is not enough, because the asker names the
  /// lengths.
  static constexpr std::size_t pages_max = 65'536;

  std::size_t on_their_way() const noexcept { return pages_.size(); }
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  struct page {
    job what;
    std::vector<std::uint64_t> waiters;
    std::uint64_t until = 0; ///< The latest time at which a waiter gives up.
    bool started = false;
  };
  static constexpr std::size_t queued_max = 8192;

  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0; ///< Bytes of the started jobs.
  std::unordered_map<page_key, page> pages_;
  std::deque<page_key> queue_;     ///< Jobs that are not started.
  std::uint64_t queued_bytes_ = 0; ///< Bytes of the queued jobs.
  std::size_t waited_for_ = 0;     ///< Queued jobs that a request waits for.
};

} // namespace peercache::actors
