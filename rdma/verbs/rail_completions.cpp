#include "rdma/verbs/rail_completions.hpp"

#include <utility>

namespace peercache::rdma {

result<rail_completions> rail_completions::create(const verbs::device& on, bool windows,
                                                  net::event_poll& events) {
  std::optional<verbs::completion_channel> channel;
  if (windows) {
    auto made = verbs::completion_channel::create(on);
    if (!made)
      return made.error();
    if (!events.add(made->fd(), event_id))
      return {errc::io_failed, "epoll refuses the completions of " + on.port().device};
    channel = std::move(*made);
  }
  auto queue = verbs::completion_queue::create(on, windows ? bindings_max : 1,
                                               channel ? &*channel : nullptr);
  if (!queue)
    return queue.error();
  if (windows && !queue->arm())
    return {errc::io_failed, "the completions of " + on.port().device + " cannot be awaited"};
  return rail_completions(std::move(channel), std::move(*queue));
}

} // namespace peercache::rdma
