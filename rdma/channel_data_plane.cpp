#include "rdma/channel_data_plane.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::rdma {

namespace {

/// Most batches that one `poll` starts, because starting one may mean to connect.
constexpr std::size_t starts_per_turn = 64;

} // namespace

result<std::unique_ptr<channel_data_plane>>
channel_data_plane::create(const channel_plane_options& opts, std::unique_ptr<transport> over) {
  if (opts.channels_per_peer_max == 0)
    return {errc::invalid_argument, "data plane: a peer must have at least one channel"};
  auto events = net::event_poll::create();
  if (!events)
    return events.error();
  return std::unique_ptr<channel_data_plane>(
      new channel_data_plane(opts, std::move(over), std::move(*events)));
}

channel_data_plane::channel_data_plane(const channel_plane_options& opts,
                                       std::unique_ptr<transport> over, net::event_poll events)
    : options_(opts), transport_(std::move(over)), events_(std::move(events)) {
  PEERCACHE_ASSERT(transport_ != nullptr);
}

channel_data_plane::~channel_data_plane() {
  shutdown();
}

// Functions that take, start and complete batches.

void channel_data_plane::submit(read_batch& batch) {
  if (shut_down_)
    return batch.fail(page_status::closed);
  if (flights_.size() + submitted_.size() >= options_.batches_max ||
      batch.pages.size() > limits::batch_pages_max)
    return batch.fail(page_status::refused);
  submitted_.push_back(&batch);
}

bool channel_data_plane::take_submitted() {
  if (submitted_.empty())
    return false;
  for (std::size_t i = 0; i < starts_per_turn && !submitted_.empty(); ++i) {
    auto* batch = submitted_.front();
    submitted_.pop_front();
    start(*batch);
  }
  return true;
}

void channel_data_plane::start(read_batch& batch) {
  if (batch.deadline <= now_)
    return refuse(batch, page_status::timed_out, stats_);
  if (!batch.judged && !transport_->reads_areas())
    return refuse(batch, page_status::unreachable, stats_);
  auto* peer = peer_of(batch.peer);
  const bool allowed = peer != nullptr && peer->breaker.allow(now_);
  if (!allowed) {
    return refuse(batch, peer == nullptr ? page_status::refused : page_status::breaker_open,
                  stats_);
  }
  auto made = std::make_unique<flight>();
  auto& job = made->job;
  job.id = next_id_++;
  job.counts = peer->counts;
  made->peer = peer;
  plan(job, batch, transport_->cut(batch));
  deadlines_.insert({batch.deadline, job.id});
  auto& kept = *flights_.emplace(job.id, std::move(made)).first->second;
  ++peer->jobs;
  peer->used_at = now_;
  if (job.undecided_subs == 0)
    return complete(kept, page_status::bad_size);
  peer->waiting.push_back(&job);
  assign(*peer);
}

void channel_data_plane::cancel(const read_batch& batch) {
  const auto waiting = std::find(submitted_.begin(), submitted_.end(), &batch);
  const auto started = std::find_if(flights_.begin(), flights_.end(), [&](const auto& each) {
    return each.second->job.batch == &batch;
  });
  if (waiting != submitted_.end()) {
    auto& mine = **waiting;
    submitted_.erase(waiting);
    refuse(mine, page_status::closed, stats_);
  } else if (started != flights_.end()) {
    auto& peer = *started->second->peer;
    cut_off(*started->second, page_status::closed);
    assign(peer);
  }
  published_.publish(stats_);
}

void channel_data_plane::cut_off(flight& which, page_status undecided) {
  which.peer->forget_waiting(which.job);
  take_channels_of(*which.peer, which.job);
  complete(which, undecided);
}

channel_peer* channel_data_plane::peer_of(const peer_endpoint& endpoint) {
  auto& found = peers_[endpoint.inc];
  if (found == nullptr) {
    if (peers_.size() > options_.peers_max) {
      peers_.erase(endpoint.inc);
      return nullptr;
    }
    found = std::make_unique<channel_peer>(endpoint, options_);
  }
  // The connections to a peer are for one service, which their hello has named.
  if (found->endpoint.service != endpoint.service)
    return nullptr;
  found->endpoint = endpoint;
  return found.get();
}

void channel_data_plane::complete(flight& which, page_status undecided) {
  auto& [job, peer] = which;
  PEERCACHE_ASSERT(!peer->carries(job));
  PEERCACHE_HOT_ASSERT(std::find(peer->waiting.begin(), peer->waiting.end(), &job) ==
                       // A completed job must not wait: waiting jobs are looked at again.
                       peer->waiting.end());
  stats_.breaker_opened += job.report_to(peer->breaker, undecided, now_);
  PEERCACHE_ASSERT(peer->jobs > 0);
  --peer->jobs;
  const auto erased = deadlines_.erase({job.batch->deadline, job.id});
  // The caller must not change the deadline of a batch that it has lent.
  PEERCACHE_ASSERT(erased == 1);
  job.finish(undecided, stats_);
  flights_.erase(job.id);
}

// Functions that open channels, give them to batches and drop them.

void channel_data_plane::assign(channel_peer& peer) {
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
    peer.count_error();
    complete(*flights_.at(job.id), page_status::unreachable);
  }
}

bool channel_data_plane::give_channels(channel_peer& peer, batch_job& job) {
  const auto subs = job.subs.size() - job.next;
  const auto wanted =
      std::min<std::uint64_t>(transport_->channels_for(job.bytes, job.order.size()), subs);
  std::uint64_t given = 0;
  // A batch gets a second and further channels only while no other batch waits for this peer.
  while (given == 0 || (given < wanted && peer.waiting.empty())) {
    auto* channel = peer.idle_channel();
    if (channel == nullptr)
      channel = open_channel(peer);
    if (channel == nullptr)
      break;
    channel->attach(job);
    make_ready(channel->id(), ready_);
    ++given;
  }
  return given != 0;
}

page_channel* channel_data_plane::open_channel(channel_peer& peer) {
  if (peer.channels.size() >= options_.channels_per_peer_max)
    return nullptr;
  const auto id = next_id_++;
  auto opened = transport_->open(id, peer.endpoint, events_, now_);
  // Opening may have failed for want of descriptors, which closed channels hold until they are
  // destroyed.
  if (opened == nullptr && !closed_.empty()) {
    closed_.clear();
    opened = transport_->open(id, peer.endpoint, events_, now_);
  }
  if (opened == nullptr)
    return nullptr;
  ++stats_.connects;
  peer.channels.push_back(std::move(opened));
  auto* channel = peer.channels.back().get();
  channels_.insert({id, {channel, &peer}});
  return channel;
}

std::vector<sub_request> channel_data_plane::drop(channel_peer& peer, page_channel& channel) {
  auto lost = channel.close();
  channels_.erase(channel.id());
  ++stats_.connections_closed;
  const auto its = std::find_if(peer.channels.begin(), peer.channels.end(),
                                [&](const auto& other) { return other.get() == &channel; });
  // A channel is dropped only once, and only by its own peer.
  PEERCACHE_ASSERT(its != peer.channels.end());
  closed_.push_back(std::move(*its));
  peer.channels.erase(its);
  return lost;
}

/// Takes the job off its channels. Those that are still connecting go on and serve the next job:
/// callers with less time than that takes would never reach the peer otherwise.
void channel_data_plane::take_channels_of(channel_peer& peer, const batch_job& job) {
  using phase = page_channel::phase;
  for (std::size_t i = peer.channels.size(); i-- > 0;) {
    auto& channel = *peer.channels[i];
    if (channel.job() != &job)
      continue;
    const bool connects =
        channel.where() == phase::connecting || channel.where() == phase::greeting;
    if (connects && channel.carries_nothing())
      channel.detach(now_);
    else
      drop(peer, channel);
  }
}

void channel_data_plane::drop_idle_channels(channel_peer& peer) {
  for (std::size_t i = peer.channels.size(); i-- > 0;)
    if (peer.channels[i]->idle())
      drop(peer, *peer.channels[i]);
}

/// Completes a job whose requests are all decided, and frees its channels for other jobs, even
/// those that are still connecting.
void channel_data_plane::job_decided(channel_peer& peer, batch_job& job) {
  for (const auto& channel : peer.channels)
    if (channel->job() == &job)
      channel->detach(now_);
  complete(*flights_.at(job.id), page_status::unreachable);
  peer.used_at = now_;
}

void channel_data_plane::on_broken(channel_peer& peer, page_channel& channel) {
  auto* job = channel.job();
  const auto why = channel.loss();
  const bool stale = channel.may_be_stale() && why == page_channel::loss_reason::closed;
  const auto lost = drop(peer, channel);
  if (job == nullptr)
    return;
  if (stale && retry(peer, *job, lost))
    return;
  if (why == page_channel::loss_reason::other_incarnation) {
    job->answered = true;
    take_channels_of(peer, *job);
    return complete(*flights_.at(job->id), page_status::holder_gone);
  }
  if (why == page_channel::loss_reason::bad_memory) {
    take_channels_of(peer, *job);
    return complete(*flights_.at(job->id), page_status::bad_size);
  }
  peer.count_error();
  job->failed |= why != page_channel::loss_reason::closed;
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

bool channel_data_plane::retry(channel_peer& peer, batch_job& job,
                               const std::vector<sub_request>& lost) {
  if (job.retried || now_ >= job.batch->deadline)
    return false;
  job.retried = true;
  for (const auto& sub : lost)
    job.put_back(sub);
  // What closed one idle connection (a restart, a middle box) has likely closed all connections
  // that are as old, so every idle channel of this peer is dropped before the job is tried a second
  // time.
  drop_idle_channels(peer);
  if (!peer.carries(job))
    peer.waiting.push_front(&job);
  return true;
}

} // namespace peercache::rdma
