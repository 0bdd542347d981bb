#pragma once

#include "handoff/links/link_event.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// Events in order, kept until their owner takes them, with a count of the bytes that they need.
///
/// Threads: one owner. Units: bytes of the events and of their encoded messages; decoded messages
/// take up to twice as many bytes of memory. Bounds: whoever adds messages stops when the batch
/// `is_full`, so the batch exceeds its limit by one message; ends of connections are added all the
/// same.
class event_batch {
public:
  explicit event_batch(std::size_t bytes_max) noexcept : bytes_max_(bytes_max) {}

  /// @param message_bytes length of the event's message, if it has one
  void push(link_event event, std::size_t message_bytes = 0) {
    events_.push_back(std::move(event));
    bytes_ += sizeof(link_event) + message_bytes;
  }
  bool is_full() const noexcept { return bytes_ != 0 && bytes_ >= bytes_max_; }
  bool empty() const noexcept { return events_.empty(); }
  std::vector<link_event> take() noexcept {
    bytes_ = 0;
    return std::exchange(events_, {});
  }

private:
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::vector<link_event> events_;
};

} // namespace peercache::handoff
