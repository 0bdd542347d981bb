#include "rdma/channel_data_plane.hpp"

#include "common/assert.hpp"

#include <utility>

// Batches that a data plane works on at once, without a turn of its loop in between.
namespace peercache::rdma {

namespace {

/// Steps of a channel between two looks at the clock.
constexpr int steps_per_clock = 64;
/// No bound of its own: the time bounds the work here, and within a step the bytes of the batch.
constexpr std::size_t now_bytes = std::size_t{1} << 40;

} // namespace

channel_peer* channel_data_plane::ready_peer(const read_batch& batch) const noexcept {
  const auto found = peers_.find(batch.peer.inc);
  if (found == peers_.end())
    return nullptr;
  auto& peer = *found->second;
  const bool fits = peer.endpoint.service == batch.peer.service && peer.waiting.empty() &&
                    peer.breaker.current() == circuit_breaker::state::closed;
  return fits ? &peer : nullptr;
}

bool channel_data_plane::read_now(read_batch& batch, clock::time_point now,
                                  clock::duration at_most) {
  now_ = now;
  if (batch.deadline <= now) {
    refuse(batch, page_status::timed_out, stats_);
    published_.publish(stats_);
    return true;
  }
  auto* peer = shut_down_ ? nullptr : ready_peer(batch);
  auto* channel = peer == nullptr ? nullptr : peer->idle_channel();
  if (channel == nullptr || !channel->idle() || (!batch.judged && !transport_->reads_areas()) ||
      batch.pages.empty() || batch.pages.size() > limits::batch_pages_max ||
      flights_.size() + submitted_.size() >= options_.batches_max) {
    submit(batch);
    return false;
  }
  if (spare_ == nullptr)
    spare_ = std::make_unique<flight>();
  auto& job = spare_->job;
  job.clear();
  job.id = next_id_++;
  job.counts = peer->counts;
  plan(job, batch, transport_->cut(batch));
  if (job.subs.size() > 1 && transport_->channels_for(job.bytes, job.order.size()) > 1) {
    submit(batch);
    return false;
  }
  if (job.undecided_subs == 0) {
    job.finish(page_status::bad_size, stats_);
    published_.publish(stats_);
    return true;
  }
  channel->attach(job);
  if (run_now(*channel, job, at_most)) {
    channel->detach(now_);
    peer->used_at = now_;
    peer->breaker.on_success();
    job.finish(page_status::unreachable, stats_);
    published_.publish(stats_);
    return true;
  }
  spare_->peer = peer;
  ++peer->jobs;
  peer->used_at = now_;
  deadlines_.insert({batch.deadline, job.id});
  flights_.emplace(job.id, std::move(spare_));
  make_ready(channel->id(), ready_);
  return false;
}

/// Steps the channel until the job is decided. False when the channel is broken, the time is over,
/// or the channel waits for something else than its device: the plane's loop goes on with it then.
bool channel_data_plane::run_now(page_channel& channel, const batch_job& job,
                                 clock::duration at_most) {
  clock::time_point until{};
  for (int steps = 1;; ++steps) {
    auto bytes_left = now_bytes;
    const auto outcome = channel.step(bytes_left);
    if (outcome == page_channel::progress::broken || outcome == page_channel::progress::blocked)
      return false;
    if (job.undecided_subs == 0 && channel.carries_nothing())
      return true;
    if (steps % steps_per_clock != 0)
      continue;
    // The clock is first looked at after some steps, which are enough for most batches.
    const auto now = clock::now();
    if (steps == steps_per_clock)
      until = now + at_most;
    if (now >= until)
      return false;
  }
}

} // namespace peercache::rdma
