#pragma once

#include "common/assert.hpp"
#include "net/socket.hpp"
#include "rdma/verbs/completion_queue.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace peercache::rdma {

/// The completion queue of a rail's queue pairs. Answering READs completes nothing, so it stays
/// empty unless the rail binds memory windows: then it counts the bindings that are under way, of
/// which no more are posted than the queue holds. Threads: the device's owner. Ownership: outlives
/// the queue pairs.
class rail_completions {
public:
  /// Bindings of all sessions that are under way at a time.
  static constexpr std::uint32_t bindings_max = 256;
  /// The id under which the thread's event_poll reports completions; no session has it.
  static constexpr std::uint64_t event_id = net::event_poll::wake_id - 1;

  static result<rail_completions> create(const verbs::device& on, bool windows,
                                         net::event_poll& events);

  verbs::completion_queue& queue() noexcept { return queue_; }
  /// How many bindings may be posted now.
  std::uint32_t room() const noexcept { return bindings_max - under_way_; }
  void posted(std::uint32_t count) noexcept {
    PEERCACHE_ASSERT(count <= room());
    under_way_ += count;
  }
  /// Notes that `count` bindings have completed, or ended with their queue pair.
  void over(std::uint32_t count) noexcept {
    PEERCACHE_ASSERT(count <= under_way_);
    under_way_ -= count;
  }

  /// Takes all completions there are, and calls `done(wr_id, status)` for each: some may be of
  /// queue pairs that have ended. Returns whether there was one.
  template <class Done>
  bool take(Done&& done) {
    if (!channel_)
      return false;
    channel_->drain();
    // A queue that cannot be armed reports no more, and is polled now and then all the same.
    [[maybe_unused]] const bool armed = queue_.arm();
    bool any = false;
    std::array<ibv_wc, 32> some;
    for (int count = queue_.poll(some); count > 0; count = queue_.poll(some)) {
      any = true;
      for (int i = 0; i < count; ++i)
        done(some[static_cast<std::size_t>(i)].wr_id, some[static_cast<std::size_t>(i)].status);
    }
    return any;
  }

private:
  rail_completions(std::optional<verbs::completion_channel> channel, verbs::completion_queue queue)
      : channel_(std::move(channel)), queue_(std::move(queue)) {}

  std::optional<verbs::completion_channel> channel_; ///< Nothing on a rail without windows.
  verbs::completion_queue queue_;
  std::uint32_t under_way_ = 0;
};

} // namespace peercache::rdma
