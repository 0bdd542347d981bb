#include "tests/fakes/memory_data_plane.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/guards.hpp"
#include "net/futex.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::rdma {

namespace {

/// Copies bytes of `from`, from byte `offset` on, into the part `to`.
void copy_rows(const memory_rows& from, std::uint64_t offset, const page_part& to) {
  for (std::uint32_t done = 0; done < to.bytes;) {
    const auto in_row = static_cast<std::uint32_t>(offset % from.row_bytes);
    const auto here = std::min(from.row_bytes - in_row, to.bytes - done);
    const auto row = from.address + offset / from.row_bytes * from.stride_bytes;
    std::memcpy(to.data + done, reinterpret_cast<const std::byte*>(row + in_row), here);
    done += here;
    offset += here;
  }
}

} // namespace

memory_data_plane::memory_data_plane(const memory_network& network,
                                     const memory_data_plane_options& opts)
    : network_(network), options_(opts), random_(opts.seed) {
  PEERCACHE_ASSERT(opts.delay_min <= opts.delay_max && opts.request_pages_max > 0);
}

memory_data_plane::~memory_data_plane() {
  shutdown();
}

void memory_data_plane::submit(read_batch& batch) {
  if (shut_down_)
    return batch.fail(page_status::closed);
  if (flights_.size() + submitted_.size() >= options_.batches_max ||
      batch.pages.size() > limits::batch_pages_max)
    return batch.fail(page_status::refused);
  submitted_.push_back(&batch);
}

void memory_data_plane::cancel(const read_batch& batch) {
  const auto waiting = std::find(submitted_.begin(), submitted_.end(), &batch);
  const auto started = std::find_if(flights_.begin(), flights_.end(), [&](const auto& each) {
    return each.second->job.batch == &batch;
  });
  if (waiting != submitted_.end()) {
    auto& mine = **waiting;
    submitted_.erase(waiting);
    refuse(mine, page_status::closed, stats_);
  } else if (started != flights_.end()) {
    // Transfers of a batch that has finished are dropped, as real data planes drop them by
    // destroying the connection.
    complete(*started->second, page_status::closed);
  }
  published_.publish(stats_);
}

bool memory_data_plane::poll(clock::time_point now) {
  now_ = now;
  bool moved = !submitted_.empty();
  for (auto* batch : std::exchange(submitted_, {}))
    start(*batch);
  while (!transfers_.empty() && transfers_.begin()->first <= now_) {
    auto due = transfers_.extract(transfers_.begin());
    // A transfer that is due at or after the deadline is dropped, as on a connection that was
    // closed by then.
    const auto found = flights_.find(due.mapped().job_id);
    if (found != flights_.end() && due.key() < found->second->job.batch->deadline)
      arrive(due.mapped());
    moved = true;
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    const auto found = flights_.find(deadlines_.begin()->second);
    deadlines_.erase(deadlines_.begin());
    if (found == flights_.end())
      continue;
    found->second->job.failed = !found->second->job.answered;
    complete(*found->second, page_status::timed_out);
    moved = true;
  }
  if (moved)
    published_.publish(stats_);
  return moved;
}

void memory_data_plane::start(read_batch& batch) {
  auto& breaker = breakers_.try_emplace(batch.peer.inc, options_.breaker).first->second;
  if (!breaker.allow(now_))
    return refuse(batch, page_status::breaker_open, stats_);
  auto made = std::make_unique<flight>();
  auto& job = made->job;
  job.id = next_id_++;
  plan(job, batch, {options_.request_pages_max, limits::page_bytes_max});
  auto& kept = *flights_.emplace(job.id, std::move(made)).first->second;
  const auto* host = network_.find(batch.peer.host, batch.peer.port);
  if (job.undecided_subs == 0)
    return complete(kept, page_status::bad_size);
  job.failed = host == nullptr;
  if (host == nullptr)
    return complete(kept, page_status::unreachable);
  if (host->inc != batch.peer.inc && guard_on(guard::incarnation)) {
    job.answered = true;
    return complete(kept, page_status::holder_gone);
  }
  if (host->service() != batch.peer.service)
    return complete(kept, page_status::unreachable); // As a real server would.
  if (!batch.judged)
    return read_areas(kept, *host);
  kept.source = host->source;
  kept.spans = host->spans;
  deadlines_.insert({batch.deadline, job.id});
  while (job.has_untaken())
    send_request(kept, job.take());
}

void memory_data_plane::read_areas(flight& from, const memory_network::host& host) {
  auto& batch = *from.job.batch;
  auto lowest = ~std::uint64_t{0};
  for (const auto& area : host.areas)
    lowest = std::min(lowest, reinterpret_cast<std::uint64_t>(area.data()));
  for (auto& page : batch.pages) {
    const auto address = lowest + page.source.address;
    const auto* at = memory_rows::one_piece(address, page.length_bytes).begin_of(0);
    const auto holds_it = [&](std::span<const std::byte> area) {
      const auto offset = address - reinterpret_cast<std::uint64_t>(area.data());
      return offset <= area.size() && page.length_bytes <= area.size() - offset;
    };
    if (page.status != page_status::pending ||
        std::none_of(host.areas.begin(), host.areas.end(), holds_it))
      continue;
    for (std::uint32_t part = 0; part < page.part_count; ++part) {
      const auto& to = batch.parts[page.first_part + part];
      std::copy_n(at, to.bytes, to.data);
      at += to.bytes;
    }
    page.status = page_status::hit;
  }
  from.job.answered = true;
  complete(from, page_status::unreachable);
}

void memory_data_plane::send_request(flight& from, const sub_request& sub) {
  if (!happens(options_.lost_per_mille))
    transfers_.insert({now_ + random_delay(), transfer{from.job.id, sub, false, {}}});
}

void memory_data_plane::arrive(transfer& what) {
  auto& at = *flights_.at(what.job_id);
  const auto& peer = at.job.batch->peer;
  const auto* host = network_.find(peer.host, peer.port);
  if (host == nullptr || host->source != at.source || host->spans != at.spans)
    // The server's process is gone, or was restarted after the request was sent.
    return complete(at, page_status::unreachable);
  using behaviour = memory_network::behaviour;
  if (host->acts == behaviour::silent)
    return;
  if (what.answer)
    return answer_arrives(at, what, host->acts);
  request_arrives(at, what);
  const bool late = happens(options_.late_per_mille);
  const auto base = late ? std::max(at.job.batch->deadline, now_) : now_;
  transfers_.insert({base + random_delay(), std::move(what)});
}

void memory_data_plane::request_arrives(flight& at, transfer& request) {
  request.answer = true;
  request.payloads.resize(request.sub.count);
  for (std::uint32_t i = 0; i < request.sub.count; ++i) {
    auto& page = at.job.page(request.sub.first + i);
    if (const auto status = take(at, page, request.payloads[i]); status != page_status::hit)
      page.status = status;
  }
}

/// Looks a page up as a server does, and pins it. Returns the page's status; for a `hit`, sets
/// `bytes` to the rows where the page lies.
page_status memory_data_plane::take(flight& at, const page_read& page, memory_rows& bytes) {
  if (at.spans != nullptr) {
    bytes = page.source;
    return at.spans->read().covers(page.source) ? at.spans->judge(page.slot, page.gen, page.key)
                                                : page_status::refused;
  }
  std::span<const std::byte> pinned;
  const auto status = at.source->pin(page.slot, page.gen, page.key, page.length_bytes, pinned);
  if (status != page_status::hit)
    return status;
  PEERCACHE_ASSERT(pinned.size() == page.length_bytes);
  bytes = memory_rows::one_piece(reinterpret_cast<std::uint64_t>(pinned.data()), page.length_bytes);
  if (guard_on(guard::pin))
    at.pinned.push_back(page.slot);
  else
    at.source->unpin(page.slot);
  return status;
}

void memory_data_plane::answer_arrives(flight& at, const transfer& answer,
                                       memory_network::behaviour acts) {
  using behaviour = memory_network::behaviour;
  const auto& sub = answer.sub;
  at.job.answered = true;
  const auto arrived = acts == behaviour::breaks ? sub.count / 2 : sub.count;
  for (std::uint32_t i = 0; i < arrived; ++i) {
    auto& page = at.job.page(sub.first + i);
    if (page.status == page_status::pending)
      receive_page(at, page, answer.payloads[i], acts == behaviour::corrupts);
  }
  if (acts == behaviour::breaks)
    return complete(at, page_status::unreachable);
  at.job.decided();
  if (at.job.undecided_subs == 0)
    complete(at, page_status::unreachable);
}

void memory_data_plane::receive_page(flight& at, page_read& page, const memory_rows& bytes,
                                     bool damaged) {
  if (at.spans != nullptr && !at.spans->read().covers(bytes)) {
    page.status = page_status::unreachable;
    return;
  }
  std::uint64_t offset = 0;
  checksum_stream digest;
  for (std::uint32_t i = 0; i < page.part_count; ++i) {
    const auto& part = at.job.batch->parts[page.first_part + i];
    if (part.bytes == 0)
      continue;
    copy_rows(bytes, offset, part);
    if (std::exchange(damaged, false))
      part.data[part.bytes / 2] ^= std::byte{0x40};
    digest.update({part.data, part.bytes});
    offset += part.bytes;
  }
  const bool checks = page.verify && guard_on(guard::checksum);
  const bool right = !checks || digest.digest() == page.checksum;
  page.status = right ? page_status::hit : page_status::corrupt;
  if (at.spans != nullptr && guard_on(guard::fence))
    if (const auto verdict = at.spans->judge(page.slot, page.gen, page.key);
        verdict != page_status::hit)
      page.status = verdict;
  if (const auto pin = std::find(at.pinned.begin(), at.pinned.end(), page.slot);
      pin != at.pinned.end()) {
    at.source->unpin(page.slot);
    at.pinned.erase(pin);
  }
}

void memory_data_plane::complete(flight& which, page_status undecided) {
  auto& job = which.job;
  for (const auto slot : which.pinned)
    which.source->unpin(slot);
  stats_.breaker_opened += job.report_to(breakers_.at(job.batch->peer.inc), undecided, now_);
  job.finish(undecided, stats_);
  flights_.erase(job.id);
}

clock::duration memory_data_plane::random_delay() {
  const auto low = options_.delay_min.count();
  const auto high = options_.delay_max.count();
  return clock::duration(std::uniform_int_distribution<clock::rep>(low, high)(random_));
}

bool memory_data_plane::happens(std::uint32_t per_mille) {
  return std::uniform_int_distribution<std::uint32_t>(0, 999)(random_) < per_mille;
}

void memory_data_plane::wait(clock::duration at_most) {
  if (!submitted_.empty())
    return;
  // In real time, `wait` sleeps at most until the next transfer is due.
  if (!transfers_.empty())
    at_most = std::min(at_most, transfers_.begin()->first - now_);
  if (!deadlines_.empty())
    at_most = std::min(at_most, deadlines_.begin()->first - now_);
  if (wakes_.exchange(0, std::memory_order_acquire) == 0 && at_most > clock::duration::zero())
    net::futex_wait(wakes_, 0, at_most);
}

void memory_data_plane::wake() noexcept {
  wakes_.store(1, std::memory_order_release);
  net::futex_wake_all(wakes_);
}

void memory_data_plane::shutdown() {
  if (std::exchange(shut_down_, true))
    return;
  for (auto* batch : std::exchange(submitted_, {}))
    batch->fail(page_status::closed);
  while (!flights_.empty())
    complete(*flights_.begin()->second, page_status::closed);
  transfers_.clear();
  deadlines_.clear();
  published_.publish(stats_);
}

} // namespace peercache::rdma
