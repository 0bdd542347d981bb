#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <cerrno>

/// The fake's functions for posting and polling, which the code under test calls for every READ.
namespace peercache::tests {

namespace {

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

int posting_error(const queue_state& queue, const ibv_send_wr& wanted) {
  if (const int error = fabric().next_fault(fake_call::post_send))
    return error;
  if (queue.device->broken)
    return EIO;
  if (queue.state != IBV_QPS_RTS && queue.state != IBV_QPS_ERR)
    return EINVAL;
  if (queue.posted - queue.freed >= queue.granted.max_send_wr)
    return ENOMEM;
  const bool known = wanted.opcode == IBV_WR_RDMA_READ || wanted.opcode == IBV_WR_RDMA_WRITE ||
                     wanted.opcode == IBV_WR_BIND_MW || is_atomic(wanted.opcode);
  if (wanted.opcode == IBV_WR_BIND_MW &&
      (wanted.num_sge != 0 || wanted.bind_mw.mw->type != IBV_MW_TYPE_2))
    return EINVAL;
  if (wanted.opcode == IBV_WR_BIND_MW &&
      wanted.bind_mw.bind_info.length > queue.device->setup.window_bytes_max)
    return EOPNOTSUPP;
  if (!known || wanted.num_sge < 0 ||
      static_cast<std::uint32_t>(wanted.num_sge) > queue.granted.max_send_sge)
    return EINVAL;
  return 0;
}

nanoseconds steady_now() {
  return std::chrono::duration_cast<nanoseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
}

nanoseconds due_time(queue_state& queue, std::uint64_t bytes, nanoseconds now) {
  fabric_state& all = fabric();
  if (all.rails.on) {
    const nanoseconds takes(
        static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / all.rails.bytes_per_second));
    queue.device->busy_until = std::max(queue.device->busy_until, now) + takes;
    return queue.device->busy_until + all.rails.latency;
  }
  if (all.delay_most == nanoseconds{})
    return all.now;
  std::uniform_int_distribution<std::int64_t> delay(all.delay_least.count(),
                                                    all.delay_most.count());
  return all.now + nanoseconds(delay(all.random));
}

void count(fake_counts& counts, const work_state& work, bool signaled) {
  ++counts.work_requests;
  counts.signaled += signaled ? 1 : 0;
  if (work.opcode != IBV_WR_RDMA_READ)
    return;
  ++counts.reads;
  counts.read_bytes += work.bytes;
  counts.fenced += (work.flags & IBV_SEND_FENCE) != 0 ? 1 : 0;
}

void take_binding(work_state& work, const ibv_send_wr& wanted) {
  const auto& info = wanted.bind_mw.bind_info;
  work.remote_address = info.addr;
  work.remote_key = static_cast<const window_state*>(wanted.bind_mw.mw)->key;
  work.new_key = wanted.bind_mw.rkey;
  work.region_key = info.mr->lkey;
  work.bind_bytes = info.length;
  work.bind_rights = info.mw_access_flags;
}

void take(queue_state& queue, const ibv_send_wr& wanted, nanoseconds now) {
  const std::uint64_t sequence = queue.posted++;
  work_state& work = queue.at(sequence);
  work = {};
  work.wr_id = wanted.wr_id;
  work.opcode = wanted.opcode;
  work.flags = wanted.send_flags | (queue.signal_all ? unsigned{IBV_SEND_SIGNALED} : 0U);
  work.remote_address =
      is_atomic(wanted.opcode) ? wanted.wr.atomic.remote_addr : wanted.wr.rdma.remote_addr;
  work.remote_key = is_atomic(wanted.opcode) ? wanted.wr.atomic.rkey : wanted.wr.rdma.rkey;
  if (is_atomic(wanted.opcode)) {
    work.compare_add = wanted.wr.atomic.compare_add;
    work.swap = wanted.wr.atomic.swap;
  }
  if (wanted.opcode == IBV_WR_BIND_MW)
    take_binding(work, wanted);
  work.pieces = static_cast<std::uint32_t>(wanted.num_sge);
  std::copy_n(wanted.sg_list, work.pieces, queue.pieces_of(sequence));
  for (std::uint32_t piece = 0; piece < work.pieces; ++piece) {
    work.bytes += wanted.sg_list[piece].length;
    if (wanted.sg_list[piece].length == 0)
      fabric().misuse.emplace_back("a piece of 0 bytes, which some devices take for 2 GiB");
  }
  work.order = ++fabric().last_order;
  work.due = due_time(queue, work.bytes, now);
  count(queue.device->counts, work, (work.flags & IBV_SEND_SIGNALED) != 0);
}

/// Completes, in a simulation of rails, the READs for which the rail has had the time.
void complete_simulated(queue_state& queue, nanoseconds now) {
  while (queue.completed < queue.posted && queue.at(queue.completed).due <= now) {
    queue.at(queue.completed).carried_out = true;
    complete_in_order(fabric(), queue);
  }
}

} // namespace

int post_send(ibv_qp* pair, ibv_send_wr* chain, ibv_send_wr** first_bad) {
  guard held(fabric().lock);
  fabric_state& all = fabric();
  queue_state& queue = state_of(pair);
  const nanoseconds now = all.rails.on ? steady_now() : all.now;
  ++queue.device->counts.doorbells;
  int error = 0;
  for (; chain != nullptr; chain = chain->next) {
    error = posting_error(queue, *chain);
    if (error != 0) {
      *first_bad = chain;
      break;
    }
    take(queue, *chain, now);
  }
  if (queue.state == IBV_QPS_ERR)
    fail_queue(all, queue);
  if (!all.rails.on)
    carry_out_due(all, held);
  return error;
}

int poll_completions(ibv_cq* queue, int count, ibv_wc* out) {
  guard held(fabric().lock);
  fabric_state& all = fabric();
  completion_state& state = state_of(queue);
  if (all.next_fault(fake_call::poll) != 0)
    return -1;
  if (all.rails.on) {
    const nanoseconds now = steady_now();
    for (queue_state* sender : state.queues)
      complete_simulated(*sender, now);
  } else {
    carry_out_due(all, held);
  }
  int taken = 0;
  for (; taken < count && !state.entries.empty(); ++taken) {
    const completion_entry& entry = state.entries.front();
    out[taken] = entry.completion;
    if (entry.queue != nullptr)
      entry.queue->freed = std::max(entry.queue->freed, entry.sequence + 1);
    state.entries.pop_front();
  }
  state_of(queue->context).device->counts.polled += static_cast<std::uint64_t>(taken);
  return taken;
}

} // namespace peercache::tests
