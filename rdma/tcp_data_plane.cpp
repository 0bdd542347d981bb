#include "rdma/tcp_data_plane.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::rdma {

namespace {

/// A channel gives way to the others after so many bytes.
constexpr std::size_t turn_bytes = 4u << 20;
constexpr auto housekeeping_every = std::chrono::milliseconds(100);

} // namespace

result<std::unique_ptr<tcp_data_plane>> tcp_data_plane::create(const tcp_data_plane_options& opts) {
  if (opts.channels_per_peer_max == 0 || opts.requests_ahead_max == 0 ||
      opts.request_pages_max == 0 || opts.request_pages_max > rdma::request_pages_max ||
      opts.request_bytes_max > rdma::request_bytes_max || opts.receive_piece_bytes == 0 ||
      opts.stripe_bytes == 0)
    return {errc::invalid_argument, "TCP data plane: an option is zero or above its limit"};
  auto events = event_poll::create();
  if (!events)
    return events.error();
  return std::unique_ptr<tcp_data_plane>(new tcp_data_plane(opts, std::move(*events)));
}

tcp_data_plane::tcp_data_plane(const tcp_data_plane_options& opts, event_poll events)
    : options_(opts), events_(std::move(events)) {}

tcp_data_plane::~tcp_data_plane() {
  shutdown();
}

// -- batches
// ------------------------------------------------------------------------------------------------------

void tcp_data_plane::submit(read_batch& batch) {
  if (shut_down_)
    return batch.fail(page_status::closed);
  if (flights_.size() + submitted_.size() >= options_.batches_max ||
      batch.pages.size() > limits::batch_pages_max)
    return batch.fail(page_status::refused);
  submitted_.push_back(&batch);
}

bool tcp_data_plane::take_submitted() {
  if (submitted_.empty())
    return false;
  for (auto* batch : std::exchange(submitted_, {}))
    start(*batch);
  return true;
}

void tcp_data_plane::start(read_batch& batch) {
  auto* peer = peer_of(batch.peer);
  const bool allowed = peer != nullptr && peer->breaker.allow(now_);
  if (!allowed) {
    return refuse(batch, peer == nullptr ? page_status::refused : page_status::breaker_open,
                  stats_);
  }
  auto made = std::make_unique<flight>();
  auto& job = made->job;
  job.id = next_id_++;
  made->peer = peer;
  plan(job, batch, {options_.request_pages_max, options_.request_bytes_max});
  deadlines_.insert({batch.deadline, job.id});
  auto& kept = *flights_.emplace(job.id, std::move(made)).first->second;
  ++peer->jobs;
  peer->used_at = now_;
  if (job.undecided_subs == 0)
    return complete(kept, page_status::bad_size);
  peer->waiting.push_back(&job);
  assign(*peer);
}

tcp_peer* tcp_data_plane::peer_of(const peer_endpoint& endpoint) {
  auto& found = peers_[endpoint.inc];
  if (found == nullptr) {
    if (peers_.size() > options_.peers_max) {
      peers_.erase(endpoint.inc);
      return nullptr;
    }
    found = std::make_unique<tcp_peer>(endpoint, options_);
  }
  found->endpoint = endpoint;
  return found.get();
}

void tcp_data_plane::complete(flight& which, page_status undecided) {
  auto& [job, peer] = which;
  PEERCACHE_ASSERT(!peer->carries(job));
  if (job.answered)
    peer->breaker.on_success();
  else if (job.failed) {
    const auto before = peer->breaker.opened_total();
    peer->breaker.on_failure(now_);
    stats_.breaker_opened += peer->breaker.opened_total() - before;
  }
  --peer->jobs;
  deadlines_.erase({job.batch->deadline, job.id});
  job.finish(undecided, stats_);
  flights_.erase(job.id);
}

// -- channels
// -----------------------------------------------------------------------------------------------------

void tcp_data_plane::assign(tcp_peer& peer) {
  while (!peer.waiting.empty()) {
    auto& job = *peer.waiting.front();
    if (peer.breaker.current() == circuit_breaker::state::open) {
      peer.waiting.pop_front();
      complete(*flights_.at(job.id), page_status::breaker_open);
      continue;
    }
    peer.waiting.pop_front();
    if (give_channels(peer, job))
      continue;
    if (peer.channels.size() >= options_.channels_per_peer_max) {
      peer.waiting.push_front(&job);
      return;
    }
    job.failed = true;
    complete(*flights_.at(job.id), page_status::unreachable);
  }
}

bool tcp_data_plane::give_channels(tcp_peer& peer, batch_job& job) {
  const auto subs = job.subs.size() - job.next;
  const auto by_size = std::min<std::uint64_t>(job.bytes / options_.stripe_bytes, subs);
  const auto wanted = std::clamp<std::uint64_t>(by_size, 1, options_.stripe_channels_max);
  std::uint64_t given = 0;
  // The second and later channels of a batch are for when nobody else waits.
  while (given == 0 || (given < wanted && peer.waiting.empty())) {
    auto* channel = peer.idle_channel();
    if (channel == nullptr)
      channel = open_channel(peer);
    if (channel == nullptr)
      break;
    channel->attach(job);
    ready_.push_back(channel->id());
    ++given;
  }
  return given != 0;
}

tcp_channel* tcp_data_plane::open_channel(tcp_peer& peer) {
  if (peer.channels.size() >= options_.channels_per_peer_max)
    return nullptr;
  auto socket = start_connect(peer.endpoint.host, peer.endpoint.port, options_.socket);
  if (!socket)
    return nullptr;
  const auto id = next_id_++;
  if (!events_.add(socket->get(), id))
    return nullptr;
  ++stats_.connects;
  peer.channels.push_back(
      std::make_unique<tcp_channel>(id, std::move(*socket), peer.endpoint, options_, now_));
  auto* channel = peer.channels.back().get();
  channels_.insert({id, {channel, &peer}});
  return channel;
}

std::vector<sub_request> tcp_data_plane::drop(tcp_peer& peer, tcp_channel& channel) {
  auto lost = channel.close();
  channels_.erase(channel.id());
  ++stats_.connections_closed;
  std::erase_if(peer.channels, [&](const auto& other) { return other.get() == &channel; });
  return lost;
}

void tcp_data_plane::drop_channels_of(tcp_peer& peer, const batch_job& job) {
  for (std::size_t i = peer.channels.size(); i-- > 0;)
    if (peer.channels[i]->job() == &job)
      drop(peer, *peer.channels[i]);
}

void tcp_data_plane::drop_idle_channels(tcp_peer& peer) {
  for (std::size_t i = peer.channels.size(); i-- > 0;)
    if (peer.channels[i]->idle())
      drop(peer, *peer.channels[i]);
}

/// Every request of the job is decided: its channels, some perhaps still connecting, are free for
/// others.
void tcp_data_plane::job_decided(tcp_peer& peer, batch_job& job) {
  for (const auto& channel : peer.channels)
    if (channel->job() == &job)
      channel->detach(now_);
  complete(*flights_.at(job.id), page_status::unreachable);
  peer.used_at = now_;
}

void tcp_data_plane::on_broken(tcp_peer& peer, tcp_channel& channel) {
  auto* job = channel.job();
  const auto why = channel.loss();
  const bool stale = channel.may_be_stale() && why == tcp_channel::loss_reason::closed;
  const auto lost = drop(peer, channel);
  if (job == nullptr)
    return;
  if (stale && retry(peer, *job, lost))
    return;
  if (why == tcp_channel::loss_reason::other_incarnation) {
    job->answered = true;
    drop_channels_of(peer, *job);
    return complete(*flights_.at(job->id), page_status::owner_gone);
  }
  job->failed |= why != tcp_channel::loss_reason::closed;
  for (const auto& sub : lost) {
    for (std::uint32_t i = 0; i < sub.count; ++i)
      if (auto& page = job->page(sub.first + i); page.status == page_status::pending)
        page.status = page_status::unreachable;
    job->decided();
  }
  if (job->undecided_subs == 0)
    job_decided(peer, *job);
  else if (!peer.carries(*job))
    complete(*flights_.at(job->id), page_status::unreachable);
}

bool tcp_data_plane::retry(tcp_peer& peer, batch_job& job, const std::vector<sub_request>& lost) {
  if (job.retried || now_ >= job.batch->deadline)
    return false;
  job.retried = true;
  for (const auto& sub : lost)
    job.put_back(sub);
  // What closed one idle connection, a restart or a middle box, has likely closed all of that age.
  drop_idle_channels(peer);
  if (!peer.carries(job))
    peer.waiting.push_front(&job);
  return true;
}

// -- the loop
// -----------------------------------------------------------------------------------------------------

bool tcp_data_plane::poll(clock::time_point now) {
  now_ = now;
  const bool took = take_submitted();
  bool moved = run_channels();
  if (take_events())
    moved |= run_channels();
  moved |= expire_batches();
  if (now_ >= housekeeping_at_) {
    housekeeping_at_ = now_ + housekeeping_every;
    expire_channels();
    forget_peers();
  }
  if (took || moved)
    published_.publish(stats_);
  return took || moved;
}

bool tcp_data_plane::take_events() {
  auto events = std::exchange(collected_, {});
  if (events.empty())
    events = events_.collect(std::chrono::nanoseconds(0));
  for (const auto& event : events) {
    const auto found = channels_.find(event.data.u64);
    if (found == channels_.end())
      continue;
    found->second.channel->on_events(event.events);
    ready_.push_back(event.data.u64);
  }
  return !events.empty();
}

bool tcp_data_plane::run_channels() {
  bool moved = false;
  std::vector<std::uint64_t> again;
  // A channel that comes free makes others ready in the same turn; one that used up its turn waits
  // for the next poll.
  while (!ready_.empty()) {
    const auto ids = std::exchange(ready_, {});
    for (const auto id : ids)
      run_channel(id, again, moved);
  }
  ready_ = std::move(again);
  return moved;
}

void tcp_data_plane::run_channel(std::uint64_t id, std::vector<std::uint64_t>& again, bool& moved) {
  const auto found = channels_.find(id);
  if (found == channels_.end())
    return;
  auto& [channel, peer] = found->second;
  auto& its_peer = *peer;
  auto& its_channel = *channel;
  switch (its_channel.step(turn_bytes)) {
  case tcp_channel::progress::broken:
    moved = true;
    on_broken(its_peer, its_channel);
    return assign(its_peer);
  case tcp_channel::progress::moved:
    moved = true;
    again.push_back(id);
    break;
  case tcp_channel::progress::blocked:
    break;
  }
  auto* job = its_channel.job();
  if (job == nullptr || !its_channel.carries_nothing())
    return;
  if (job->undecided_subs == 0) {
    job_decided(its_peer, *job);
    assign(its_peer);
  } else if (!job->has_untaken() && its_channel.where() == tcp_channel::phase::ready) {
    its_channel.detach(now_);
    assign(its_peer);
  }
}

void tcp_data_plane::wait(clock::duration at_most) {
  if (!submitted_.empty() || !ready_.empty() || !collected_.empty())
    return;
  const auto until_timer = next_timer() - clock::now();
  const auto sleep = std::clamp(until_timer, clock::duration::zero(), at_most);
  collected_ = events_.collect(sleep);
}

clock::time_point tcp_data_plane::next_timer() const noexcept {
  auto first = clock::time_point::max();
  if (!channels_.empty())
    first = housekeeping_at_;
  if (!deadlines_.empty())
    first = std::min(first, deadlines_.begin()->first);
  return first;
}

// -- time
// ---------------------------------------------------------------------------------------------------------

bool tcp_data_plane::expire_batches() {
  bool any = false;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    auto& late = *flights_.at(deadlines_.begin()->second);
    auto& peer = *late.peer;
    late.job.failed |= peer.carries(late.job) && !late.job.answered;
    peer.forget_waiting(late.job);
    drop_channels_of(peer, late.job);
    complete(late, page_status::timed_out);
    assign(peer);
    any = true;
  }
  return any;
}

void tcp_data_plane::expire_channels() {
  using phase = tcp_channel::phase;
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
  for (const auto id : unconnected) {
    const auto found = channels_.find(id);
    if (found == channels_.end())
      continue; // Went down with the batch of an earlier one.
    const auto [channel, peer] = found->second;
    on_broken(*peer, *channel);
    assign(*peer);
  }
}

void tcp_data_plane::forget_peers() {
  std::erase_if(peers_, [this](const auto& entry) {
    const auto& peer = *entry.second;
    return peer.jobs == 0 && peer.channels.empty() && now_ - peer.used_at >= options_.idle_timeout;
  });
}

void tcp_data_plane::shutdown() {
  if (std::exchange(shut_down_, true))
    return;
  for (auto* batch : std::exchange(submitted_, {}))
    batch->fail(page_status::closed);
  while (!flights_.empty()) {
    auto& [id, left] = *flights_.begin();
    left->peer->forget_waiting(left->job);
    drop_channels_of(*left->peer, left->job);
    complete(*left, page_status::closed);
  }
  for (auto& [inc, peer] : peers_)
    while (!peer->channels.empty())
      drop(*peer, *peer->channels.back());
  published_.publish(stats_);
}

} // namespace peercache::rdma
