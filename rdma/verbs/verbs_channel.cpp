#include "rdma/verbs/verbs_channel.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"

#include <algorithm>
#include <array>

namespace peercache::rdma {
namespace {

constexpr std::size_t completions_per_poll = 32;

} // namespace

result<verbs_ends> verbs_ends::create(const verbs_rail& rail, verbs::completion_channel* channel) {
  const auto& can = rail.device.port().can;
  const auto depth = std::min(rail.options.send_depth, std::min(can.send_depth, can.completions));
  const auto sge = std::min(payload_read::sge_max, can.sge);
  // The completion queue is as long as the send queue, because every work request leaves a
  // completion when the queue pair fails.
  auto completions = verbs::completion_queue::create(rail.device, depth, channel);
  if (!completions)
    return completions.error();
  auto pair = verbs::queue_pair::create(rail.device, *completions, verbs::queue_pair_use::reader,
                                        depth, sge);
  if (!pair)
    return pair.error();
  return verbs_ends{std::move(*completions), std::move(*pair), depth, sge};
}

verbs_channel::verbs_channel(std::uint64_t id, verbs_rail& rail, net::stream_socket control,
                             verbs_ends ends, const verbs_hello& greeting, clock::time_point now)
    : page_channel(id, now), rail_(rail), ends_(std::move(ends)),
      handshake_(std::move(control), greeting),
      own_(greeting.end), limits_{greeting.end.message_bytes, ends_.sge},
      requests_(rail.options.post_chain_max),
      sges_(std::size_t{rail.options.post_chain_max} * ends_.sge) {
  PEERCACHE_ASSERT(!requests_.empty() && ends_.sge > 0 && ends_.send_depth > 0);
  rail_counters::add(rail_.counters.channels, 1);
  // Sets what stays the same over all doorbells: the opcode, where each request's pieces are, and
  // the chain from each request to its next.
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i] = {};
    requests_[i].opcode = IBV_WR_RDMA_READ;
    requests_[i].sg_list = &sges_[i * ends_.sge];
    requests_[i].next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
  }
}

verbs_channel::~verbs_channel() {
  close();
  rail_.counters.channels.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<sub_request> verbs_channel::close() noexcept {
  // The queue pair ends before any memory is given back, so that no late READ can arrive there.
  ends_.pair.reset();
  handshake_.close();
  phase_ = phase::broken;
  for (const auto& copy : std::exchange(bounced_, {}))
    rail_.bounce.give_back(copy.block);
  if (landing_)
    rail_.bounce.give_back(*std::exchange(landing_, std::nullopt));
  payloads_.drop();
  job_ = nullptr;
  std::vector<sub_request> lost;
  if (std::exchange(busy_, false)) {
    lost.push_back(sub_);
    peer_->errors.fetch_add(1, std::memory_order_relaxed);
  }
  return lost;
}

// Functions for the handshake and the connect.

bool verbs_channel::run_handshake() {
  auto at = handshake_.step();
  if (at == verbs_handshake::state::answered) {
    if (!connect())
      return broken(loss_reason::not_connected);
    handshake_.ready();
    phase_ = phase::ready;
    at = handshake_.step();
  }
  if (at == verbs_handshake::state::greeting)
    phase_ = phase::greeting;
  return at != verbs_handshake::state::broken || broken(handshake_.why());
}

bool verbs_channel::connect() {
  const auto& peer = handshake_.answer().end;
  const auto& can = rail_.device.port().can;
  limits_.message_bytes = std::min(peer.message_bytes, can.message_bytes);
  peer_ = &rail_.counters.peers.of(name_of(handshake_.answer().name));
  verbs::path to;
  to.remote_queue_pair = peer.queue_pair;
  to.remote_psn = peer.psn;
  to.own_psn = own_.psn;
  to.remote_gid = peer.gid;
  to.remote_lid = peer.lid;
  to.mtu_bytes = std::min(peer.mtu_bytes, can.mtu_bytes);
  to.initiator_depth = std::min(peer.responder_depth, own_.initiator_depth);
  return static_cast<bool>(ends_.pair.connect(to, rail_.options.path));
}

// Functions for one sub-request, from its begin to its end.

verbs_channel::progress verbs_channel::step(std::size_t& bytes_left) {
  if (phase_ == phase::broken || !run_handshake())
    return progress::broken;
  if (phase_ != phase::ready || job_ == nullptr)
    return progress::blocked;
  if (!busy_ && !job_->has_untaken())
    return progress::blocked;
  if (!busy_ && !begin_sub())
    return progress::in_flight;
  bool moved = false;
  const bool well = reap(moved);
  bytes_left -= std::min(bytes_left, std::exchange(copied_bytes_, 0));
  if (!well)
    return progress::broken;
  judge();
  if (!post())
    return progress::broken;
  // Completions are awaited even when all pages are decided: READs into their memory may still be
  // on their way.
  if (posted_ != retired_)
    return moved ? progress::moved : progress::in_flight;
  judge(); // Decides the pages for which no entry is READ.
  if (!entries_.all_judged())
    return progress::in_flight; // A payload waits for a bounce block.
  end_sub();
  return progress::moved;
}

void verbs_channel::judge() noexcept {
  if (reads_entries())
    entries_.judge(retired_);
  else if (payloads_posted_ && posted_ == retired_)
    // A page that was not validated is a miss; bytes that the caller judges have arrived.
    entries_.decide_all(job_->batch->judged ? page_status::stale : page_status::hit);
}

bool verbs_channel::begin_sub() {
  // Entries land in a bounce block. At least one more block is left for payloads, so that a payload
  // which needs a block is always READ at last.
  if (reads_entries() && rail_.bounce.free_blocks() < 2)
    return false;
  PEERCACHE_ASSERT(!busy_ && !landing_ && bounced_.empty() && posted_ == retired_);
  if (reads_entries())
    landing_ = rail_.bounce.take();
  sub_ = job_->take();
  busy_ = true;
  payloads_posted_ = fenced_ = false;
  payloads_.begin(*job_, sub_, handshake_.region(), rail_.destinations.current(), limits_);
  entries_.begin(*job_, sub_, handshake_.region(), limits_.message_bytes,
                 landing_ ? rail_.bounce.address(*landing_) : nullptr);
  return true;
}

void verbs_channel::end_sub() noexcept {
  PEERCACHE_ASSERT(bounced_.empty() && posted_ == retired_);
  PEERCACHE_ASSERT(busy_ && entries_.all_judged());
  if (landing_)
    rail_.bounce.give_back(*std::exchange(landing_, std::nullopt));
  payloads_.drop();
  busy_ = false;
  if (job_->batch->judged) {
    peer_->reads.fetch_add(sub_.count, std::memory_order_relaxed);
    peer_->bytes.fetch_add(sub_.bytes, std::memory_order_relaxed);
  }
  job_->answered = true;
  job_->decided();
}

// Functions that post READs.

bool verbs_channel::post() {
  for (;;) {
    PEERCACHE_ASSERT(posted_ - retired_ <= ends_.send_depth);
    const auto free = ends_.send_depth - static_cast<std::uint32_t>(posted_ - retired_);
    const auto room = std::min(free, rail_.options.post_chain_max);
    auto count = payloads_posted_ ? 0 : chain_payloads(room);
    if (payloads_posted_ && reads_entries())
      count = chain_entries(count, room);
    if (count == 0)
      return true;
    if (!ring_doorbell(count))
      return broken(loss_reason::closed);
  }
}

ibv_send_wr& verbs_channel::request(std::uint32_t index, std::uint64_t remote,
                                    std::uint32_t rkey) noexcept {
  auto& made = requests_[index];
  made.wr_id = ++posted_;
  made.send_flags = 0;
  made.num_sge = 1;
  made.wr.rdma.remote_addr = remote;
  made.wr.rdma.rkey = rkey;
  return made;
}

std::uint32_t verbs_channel::chain_payloads(std::uint32_t room) {
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
  payload_read read;
  while (count < room && bytes < rail_.options.post_chain_bytes) {
    const auto what = payloads_.next(read, rail_.bounce);
    payloads_posted_ = what == payload_reads::outcome::done;
    if (what != payload_reads::outcome::read)
      break;
    auto& made = request(count++, read.remote_address, read.rkey);
    made.num_sge = static_cast<int>(read.sge_count);
    std::copy_n(read.sges.begin(), read.sge_count, made.sg_list);
    if (read.copy_to != nullptr)
      bounced_.push_back({posted_, read.block, read.bytes, read.copy_to});
    bytes += read.bytes;
  }
  auto& counters = rail_.counters;
  const bool of_areas = !job_->batch->judged;
  rail_counters::add(of_areas ? counters.area_reads : counters.payload_reads, count);
  rail_counters::add(of_areas ? counters.area_bytes : counters.payload_bytes, bytes);
  return count;
}

std::uint32_t verbs_channel::chain_entries(std::uint32_t count, std::uint32_t room) {
  const auto before = count;
  entry_read read;
  while (count < room && entries_.next(read, posted_ + 1)) {
    auto& made = request(count++, read.remote_address, read.rkey);
    made.sg_list[0] = {reinterpret_cast<std::uint64_t>(read.to), read.bytes,
                       rail_.bounce.local_key()};
    if (std::exchange(fenced_, true))
      continue;
    // The fence makes the first entry READ of a sub-request wait until all payloads have arrived;
    // the entry READs behind it follow in order.
    made.send_flags = guard_on(guard::fence) ? IBV_SEND_FENCE : 0;
    rail_counters::add(rail_.counters.fences, 1);
  }
  rail_counters::add(rail_.counters.entry_reads, count - before);
  return count;
}

bool verbs_channel::ring_doorbell(std::uint32_t count) {
  PEERCACHE_ASSERT(count > 0 && count <= requests_.size());
  auto& last = requests_[count - 1];
  auto* const after = std::exchange(last.next, nullptr);
  last.send_flags |= IBV_SEND_SIGNALED;
  rail_counters::add(rail_.counters.doorbells, 1);
  ibv_send_wr* refused = nullptr;
  const auto failed = ends_.pair.post(requests_.data(), &refused);
  last.next = after;
  if (failed == 0)
    return true;
  rail_counters::add(rail_.counters.refused_work, 1);
  return false;
}

// Functions that handle completions of READs.

bool verbs_channel::arm() noexcept {
  if (!ends_.completions.arm())
    return false;
  rail_.armed = true;
  bool moved = false;
  return reap(moved) && !moved;
}

bool verbs_channel::reap(bool& moved) {
  std::array<ibv_wc, completions_per_poll> done;
  for (;;) {
    const auto count = ends_.completions.poll(done);
    if (count < 0)
      return broken(loss_reason::closed);
    for (int i = 0; i < count; ++i) {
      const auto& one = done[static_cast<std::size_t>(i)];
      if (one.status != IBV_WC_SUCCESS) {
        const auto status = std::min<std::size_t>(one.status, rail_counters::wc_statuses - 1);
        rail_counters::add(rail_.counters.errors[status], 1);
        return broken(loss_reason::closed);
      }
      retire(one.wr_id);
      moved = heard_since_attach_ = true;
    }
    if (count < static_cast<int>(done.size()))
      return true;
  }
}

/// Marks the work requests up to `up_to` as done: a queue pair completes its requests in order, so
/// a completion also covers the earlier requests. Copies bytes that arrived in bounce blocks to
/// their place.
void verbs_channel::retire(std::uint64_t up_to) noexcept {
  PEERCACHE_ASSERT(up_to > retired_ && up_to <= posted_);
  retired_ = up_to;
  while (!bounced_.empty() && bounced_.front().request <= up_to) {
    const auto& copy = bounced_.front();
    std::copy_n(rail_.bounce.address(copy.block), copy.bytes, copy.to);
    rail_counters::add(rail_.counters.bounced_bytes, copy.bytes);
    copied_bytes_ += copy.bytes;
    rail_.bounce.give_back(copy.block);
    bounced_.pop_front();
  }
}

} // namespace peercache::rdma
