#pragma once

#include "common/page_key.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::actors {

/// Who waits for which page of the disk: each page is on its way at most once, however many ask for
/// it, and no more bytes are on their way than allowed.
///
/// Threads: none; the owner serializes. Time comes as an argument, in milliseconds of any clock.
/// Invariant: each job that was started is on its way until `finish`.
class promotions {
public:
  explicit promotions(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// A page that is to be brought now.
  struct job {
    page_key key;
    std::uint32_t length_bytes = 0;
    bool warm = false; ///< Nobody waits for it.
  };

  enum class answer : std::uint8_t {
    queued,
    joined, ///< It is on its way already.
    refused ///< Too much is, or too many wait for this page.
  };

  /// @param waiter the asker's name, heard again from `finish`; nobody's for a page that is only to
  /// be warmed, which is refused where others wait
  /// @param until when the asker has given up
  answer ask(const page_key& key, std::uint32_t length_bytes, std::optional<std::uint64_t> waiter,
             std::uint64_t until);

  /// The page is there, or will not be: who waited for it.
  std::vector<std::uint64_t> finish(const page_key& key);

  /// Jobs that there is room for, in the order of their asking, at most `count`. Those that
  /// everybody has given up are dropped.
  std::vector<job> start_next(std::uint64_t now, std::size_t count);

  /// For one page. Those that have given up are among them, until the page is decided: a device
  /// that hangs does not let them grow.
  static constexpr std::size_t waiters_max = 65'536;

  std::size_t on_their_way() const noexcept { return pages_.size(); }
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  struct page {
    job what;
    std::vector<std::uint64_t> waiters;
    std::uint64_t until = 0; ///< The last asker's.
    bool started = false;
  };
  static constexpr std::size_t queued_max = 8192;

  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0; ///< Of the started ones.
  std::unordered_map<page_key, page> pages_;
  std::deque<page_key> queue_;     ///< Not started.
  std::uint64_t queued_bytes_ = 0; ///< Of those.
  std::size_t waited_for_ = 0;     ///< Of those, that somebody waits for.
};

} // namespace peercache::actors
