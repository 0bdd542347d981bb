#include "rdma/verbs/session_windows.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::rdma {

result<void> session_windows::bind(const served_chunks& all, verbs::queue_pair& pair,
                                   std::uint32_t at_most, std::uint64_t wr_id,
                                   clock::time_point now) {
  PEERCACHE_ASSERT(windows_.size() <= all.size() && under_way() <= depth);
  for (auto room = std::min(at_most, depth - under_way()); room > 0; --room) {
    const auto at = windows_.size();
    if (at == all.size())
      break;
    auto window = all.windows(at)->bind(pair, wr_id);
    // Memory that was removed a moment ago ends all sessions as soon as the rail hears of it.
    if (!window && window.error().code == errc::not_found)
      break;
    if (!window)
      return window.error();
    if (under_way() == 0)
      moved_at_ = now;
    if (at == 0)
      begun_at_ = now;
    chunks_.push_back(all.chunks()[at]);
    chunks_.back().rkey = window->remote_key();
    windows_.push_back(std::move(*window));
  }
  return {};
}

std::size_t session_windows::end_some(std::size_t at_most) noexcept {
  const auto count = std::min(at_most, windows_.size());
  for (std::size_t ended = 0; ended < count; ++ended)
    windows_.pop_back();
  return count;
}

void session_windows::bound(clock::time_point now) noexcept {
  PEERCACHE_ASSERT(under_way() > 0);
  ++bound_;
  moved_at_ = now;
}

} // namespace peercache::rdma
