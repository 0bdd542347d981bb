#include "common/assert.hpp"
#include "rdma/channel_data_plane.hpp"

#include <algorithm>

// The turns of the data plane's loop, and its deadlines and time-outs; channel_data_plane.cpp has
// the batches and the channels.
namespace peercache::rdma {

namespace {

/// Bytes that all channels together take in one poll: the poll then lasts about a millisecond, or
/// about four where the destination memory was never touched.
constexpr std::size_t turn_bytes = 2u << 20;
/// Number of bytes that a channel takes before it gives way to other channels.
constexpr std::size_t channel_bytes = 1u << 20;
/// Bytes that one step of a channel takes off a poll's budget besides the bytes that came: the
/// price of the step's system calls.
constexpr std::size_t step_bytes = 8u << 10;
/// Most closed sockets that one poll ends: a socket with a full receive buffer takes the kernel up
/// to half a millisecond to end.
constexpr std::size_t ends_per_turn = 8;
constexpr auto housekeeping_every = std::chrono::milliseconds(100);
/// While a device works, only one in this many polls asks epoll: a poll that does not ask makes no
/// system call, and the sockets carry only handshakes and hang-ups then.
constexpr std::uint32_t turns_per_look = 16;

} // namespace

bool channel_data_plane::poll(clock::time_point now) {
  now_ = now;
  const bool took = take_submitted();
  const bool device_works = !in_flight_.empty();
  bool moved = lose_channels();
  if (device_works)
    take_in_flight();
  auto bytes_left = turn_bytes;
  moved |= run_channels(bytes_left);
  if (!device_works || !collected_.empty() || ++turns_since_look_ >= turns_per_look) {
    turns_since_look_ = 0;
    if (take_events())
      moved |= run_channels(bytes_left);
  }
  moved |= expire_batches();
  moved |= end_connections();
  if (now_ >= housekeeping_at_) {
    housekeeping_at_ = now_ + housekeeping_every;
    expire_channels();
    forget_peers();
  }
  if (took || moved)
    published_.publish(stats_);
  return took || moved;
}

/// Breaks all channels when the transport as a whole cannot go on, such as a rail whose port is
/// down. Returns true when channels were lost.
bool channel_data_plane::lose_channels() {
  if (transport_->poll(now_) || channels_.empty())
    return false;
  std::vector<std::uint64_t> lost;
  for (const auto& [id, ref] : channels_)
    lost.push_back(id);
  for (const auto id : lost)
    lose(id);
  return true;
}

void channel_data_plane::lose(std::uint64_t id) {
  const auto found = channels_.find(id);
  if (found == channels_.end())
    // The channel is gone already: it carried a batch that ended when another channel was lost.
    return;
  auto& peer = *found->second.peer;
  on_broken(peer, *found->second.channel);
  assign(peer);
}

void channel_data_plane::take_in_flight() {
  for (const auto id : in_flight_)
    if (const auto found = channels_.find(id); found != channels_.end()) {
      found->second.in_flight = false;
      make_ready(id, ready_);
    }
  in_flight_.clear();
}

bool channel_data_plane::take_events() {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_.collect(std::chrono::nanoseconds(0));
  for (const auto& event : events) {
    // `id` is a copy, because the packed epoll_event does not align its member.
    const std::uint64_t id = event.data.u64;
    const auto found = channels_.find(id);
    if (found == channels_.end())
      continue;
    found->second.channel->on_events(event.events);
    make_ready(id, ready_);
  }
  return !events.empty();
}

void channel_data_plane::make_ready(std::uint64_t id, std::deque<std::uint64_t>& in) {
  if (const auto found = channels_.find(id);
      found != channels_.end() && !std::exchange(found->second.ready, true))
    in.push_back(id);
}

bool channel_data_plane::run_channels(std::size_t& bytes_left) {
  bool moved = false;
  // A channel that becomes free may make other channels ready in this same turn. A channel that
  // used up its share waits in `again_` for the next poll; when the turn's bytes are used up, all
  // channels that are still ready wait for the next poll.
  while (!ready_.empty() && bytes_left > 0) {
    const auto id = ready_.front();
    ready_.pop_front();
    run_channel(id, bytes_left, moved);
  }
  ready_.insert(ready_.end(), again_.begin(), again_.end());
  again_.clear();
  return moved;
}

void channel_data_plane::run_channel(std::uint64_t id, std::size_t& bytes_left, bool& moved) {
  const auto found = channels_.find(id);
  if (found == channels_.end())
    return;
  found->second.ready = false;
  auto& its_peer = *found->second.peer;
  auto& its_channel = *found->second.channel;
  const auto share = std::min(bytes_left, channel_bytes);
  auto unused = share;
  const auto outcome = its_channel.step(unused);
  PEERCACHE_ASSERT(unused <= share);
  bytes_left -= std::min(bytes_left, share - unused + step_bytes);
  switch (outcome) {
  case page_channel::progress::broken:
    moved = true;
    on_broken(its_peer, its_channel);
    return assign(its_peer);
  case page_channel::progress::moved:
    moved = true;
    make_ready(id, again_);
    break;
  case page_channel::progress::in_flight:
    if (!std::exchange(found->second.in_flight, true))
      in_flight_.push_back(id);
    break;
  case page_channel::progress::blocked:
    break;
  }
  auto* job = its_channel.job();
  if (job == nullptr || !its_channel.carries_nothing())
    return;
  if (job->undecided_subs == 0) {
    job_decided(its_peer, *job);
    assign(its_peer);
  } else if (!job->has_untaken() && its_channel.where() == page_channel::phase::ready) {
    its_channel.detach(now_);
    assign(its_peer);
  }
}

void channel_data_plane::wait(clock::duration at_most) {
  if (const auto sleep = rest(at_most); sleep > clock::duration::zero())
    collected_ = events_.collect(sleep);
}

clock::duration channel_data_plane::rest(clock::duration at_most) {
  if (!submitted_.empty() || !ready_.empty() || !collected_.empty() || !closed_.empty() ||
      !arm_in_flight())
    return clock::duration::zero();
  turns_since_look_ = turns_per_look; // What ends the sleep is taken by the next poll.
  return std::clamp(next_timer() - clock::now(), clock::duration::zero(), at_most);
}

/// Arms all channels in flight, before the thread sleeps. False when a device has finished
/// something meanwhile: the thread must not sleep then, since the next poll takes it.
bool channel_data_plane::arm_in_flight() {
  return std::all_of(in_flight_.begin(), in_flight_.end(), [this](std::uint64_t id) {
    const auto found = channels_.find(id);
    return found == channels_.end() || found->second.channel->arm();
  });
}

clock::time_point channel_data_plane::next_timer() const noexcept {
  auto first = clock::time_point::max();
  if (!channels_.empty())
    first = housekeeping_at_;
  if (!deadlines_.empty())
    first = std::min(first, deadlines_.begin()->first);
  return first;
}

// Functions for deadlines and time-outs.

bool channel_data_plane::expire_batches() {
  std::vector<channel_peer*> freed;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    auto& late = *flights_.at(deadlines_.begin()->second);
    auto& peer = *late.peer;
    late.job.failed |= peer.carries(late.job) && !late.job.answered;
    peer.count_late(late.job);
    cut_off(late, page_status::timed_out);
    freed.push_back(&peer);
  }
  // A channel that is freed here goes to a waiting batch only after all overdue batches have ended,
  // so that no overdue batch gets a channel.
  for (auto* peer : freed)
    assign(*peer);
  return !freed.empty();
}

/// Destroys channels that were closed, and with them their sockets, a few per call. Returns true
/// while there may be more of them.
bool channel_data_plane::end_connections() {
  const bool any = !closed_.empty();
  closed_.resize(closed_.size() - std::min(closed_.size(), ends_per_turn));
  return any;
}

void channel_data_plane::expire_channels() {
  using phase = page_channel::phase;
  std::vector<std::uint64_t> unconnected;
  std::vector<std::uint64_t> unused;
  for (const auto& [id, ref] : channels_) {
    const auto& channel = *ref.channel;
    if (channel.where() != phase::ready && now_ - channel.opened_at() >= options_.connect_timeout)
      unconnected.push_back(id);
    else if (channel.idle() && now_ - channel.idle_since() >= options_.idle_timeout)
      unused.push_back(id);
  }
  for (const auto id : unused)
    drop(*channels_.at(id).peer, *channels_.at(id).channel);
  for (const auto id : unconnected)
    lose(id);
}

void channel_data_plane::forget_peers() {
  std::erase_if(peers_, [this](const auto& entry) {
    const auto& peer = *entry.second;
    PEERCACHE_ASSERT(peer.jobs >= peer.waiting.size()); // Waiting jobs count among the peer's jobs.
    return peer.jobs == 0 && peer.channels.empty() && now_ - peer.used_at >= options_.idle_timeout;
  });
}

void channel_data_plane::shutdown() {
  if (std::exchange(shut_down_, true))
    return;
  for (auto* batch : std::exchange(submitted_, {}))
    batch->fail(page_status::closed);
  while (!flights_.empty())
    cut_off(*flights_.begin()->second, page_status::closed);
  for (auto& [inc, peer] : peers_)
    while (!peer->channels.empty())
      drop(*peer, *peer->channels.back());
  PEERCACHE_ASSERT(channels_.empty() && deadlines_.empty());
  closed_.clear();
  published_.publish(stats_);
}

} // namespace peercache::rdma
