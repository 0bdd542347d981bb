#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>

/// The fake provider's hardware: carries out work requests that are due, in any order that real
/// hardware may choose.
namespace peercache::tests {

namespace {

struct candidate {
  queue_state* queue = nullptr;
  std::uint64_t sequence = 0;
};

/// Collects the work requests of a queue pair that the hardware may carry out next, due or not.
void add_candidates(fabric_state& all, queue_state& queue, std::vector<candidate>& out) {
  if (queue.state != IBV_QPS_RTS)
    return;
  bool all_before_done = true;
  for (std::uint64_t sequence = queue.completed; sequence < queue.posted; ++sequence) {
    const work_state& work = queue.at(sequence);
    if (work.carried_out)
      continue;
    if ((work.flags & IBV_SEND_FENCE) != 0 && !all_before_done)
      return; // A fenced request waits for the requests posted before it, and so do the requests
              // posted after it.
    out.push_back({&queue, sequence});
    if (!all.reorder)
      return;
    all_before_done = false;
  }
}

std::vector<candidate> candidates(fabric_state& all) {
  std::vector<candidate> found;
  for (auto& [number, queue] : all.queues)
    add_candidates(all, *queue, found);
  return found;
}

std::optional<candidate> pick(fabric_state& all) {
  if (all.held && all.allowance == 0)
    return std::nullopt;
  std::vector<candidate> found = candidates(all);
  std::erase_if(found,
                [&](const candidate& each) { return each.queue->at(each.sequence).due > all.now; });
  if (found.empty())
    return std::nullopt;
  if (all.reorder)
    return found[std::uniform_int_distribution<std::size_t>(0, found.size() - 1)(all.random)];
  return *std::min_element(found.begin(), found.end(), [](const auto& a, const auto& b) {
    const work_state& first = a.queue->at(a.sequence);
    const work_state& second = b.queue->at(b.sequence);
    return std::pair(first.due, first.order) < std::pair(second.due, second.order);
  });
}

ibv_wc_opcode completed_as(ibv_wr_opcode opcode) {
  switch (opcode) {
  case IBV_WR_RDMA_READ:
    return IBV_WC_RDMA_READ;
  case IBV_WR_ATOMIC_CMP_AND_SWP:
    return IBV_WC_COMP_SWAP;
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    return IBV_WC_FETCH_ADD;
  case IBV_WR_BIND_MW:
    return IBV_WC_BIND_MW;
  default:
    return IBV_WC_RDMA_WRITE;
  }
}

void notify(fabric_state& all, completion_state& queue) {
  if (!queue.armed || queue.channel == nullptr || all.rails.on)
    return;
  queue.armed = false;
  channel_state& channel = state_of(queue.channel);
  channel.pending.push_back(&queue);
  channel.events.raise();
}

void add_completion(fabric_state& all, queue_state& queue, std::uint64_t sequence,
                    ibv_wc_status status) {
  completion_state& into = state_of(queue.send_cq);
  if (into.entries.size() >= static_cast<std::size_t>(into.cqe)) {
    all.misuse.emplace_back("a completion queue overran");
    queue.state = IBV_QPS_ERR;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = &into;
    all.tell(state_of(queue.context), event);
    return;
  }
  const work_state& work = queue.at(sequence);
  completion_entry entry{{}, &queue, sequence};
  entry.completion.wr_id = work.wr_id;
  entry.completion.status = status;
  entry.completion.opcode = completed_as(work.opcode);
  entry.completion.qp_num = queue.qp_num;
  if (work.opcode != IBV_WR_RDMA_WRITE)
    entry.completion.byte_len = static_cast<std::uint32_t>(work.bytes);
  into.entries.push_back(entry);
  notify(all, into);
}

/// Fails the responder's queue pair too when it refuses a request, as hardware does.
void fail_responder(fabric_state& all, const queue_state& requester, ibv_wc_status status) {
  if (status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_REM_INV_REQ_ERR)
    return;
  auto found = all.queues.find(requester.attributes.dest_qp_num);
  if (found == all.queues.end())
    return;
  queue_state& responder = *found->second;
  fail_queue(all, responder);
  ibv_async_event event{};
  event.event_type =
      status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
  event.element.qp = &responder;
  all.tell(state_of(responder.context), event);
}

void finish(fabric_state& all, queue_state& queue, std::uint64_t sequence, ibv_wc_status status) {
  queue.at(sequence).status = status;
  queue.at(sequence).carried_out = true;
  fail_responder(all, queue, status);
  complete_in_order(all, queue);
}

fake_work view_of(queue_state& queue, std::uint64_t sequence) {
  const work_state& work = queue.at(sequence);
  return {queue.qp_num,        work.wr_id, work.opcode, (work.flags & IBV_SEND_FENCE) != 0,
          work.remote_address, work.bytes};
}

/// Whether a work request is still to be carried out after the lock was released and taken again.
bool still_there(fabric_state& all, std::uint32_t number, std::uint64_t sequence) {
  auto found = all.queues.find(number);
  return found != all.queues.end() && found->second->state == IBV_QPS_RTS &&
         sequence >= found->second->completed && sequence < found->second->posted;
}

/// Calls a hook with the lock released. False when the work request was gone after the hook.
bool call_hook(fabric_state& all, guard& held, const fake_fabric::hook& hook, queue_state& queue,
               std::uint64_t sequence) {
  if (!hook)
    return true;
  const std::uint32_t number = queue.qp_num;
  const fake_work view = view_of(queue, sequence);
  const fake_fabric::hook copy = hook;
  held.unlock();
  copy(view);
  held.lock();
  return still_there(all, number, sequence);
}

/// Gives a request that nobody answers one retry delay; when that is over, the request ends as
/// failed.
void retry(fabric_state& all, queue_state& queue, std::uint64_t sequence) {
  work_state& work = queue.at(sequence);
  if (!work.retrying && all.retry_delay > nanoseconds{}) {
    work.retrying = true;
    work.due = all.now + all.retry_delay;
  } else {
    finish(all, queue, sequence, IBV_WC_RETRY_EXC_ERR);
  }
}

void carry_out(fabric_state& all, guard& held, queue_state& queue, std::uint64_t sequence) {
  if (queue.at(sequence).opcode == IBV_WR_BIND_MW) {
    finish(all, queue, sequence, bind_window(all, queue, sequence));
    return;
  }
  if (!call_hook(all, held, all.before_each, queue, sequence))
    return;
  if (!reachable(all, queue)) {
    retry(all, queue, sequence);
    return;
  }
  const ibv_wc_status allowed = check_access(all, queue, sequence);
  if (allowed != IBV_WC_SUCCESS) {
    finish(all, queue, sequence, allowed);
    return;
  }
  const std::uint64_t bytes = queue.at(sequence).bytes;
  const std::uint64_t half = all.in_the_middle ? bytes / 2 : bytes;
  transfer(all, queue, sequence, 0, half);
  if (half < bytes) {
    if (!call_hook(all, held, all.in_the_middle, queue, sequence))
      return;
    const ibv_wc_status still = check_access(all, queue, sequence);
    if (still != IBV_WC_SUCCESS) {
      finish(all, queue, sequence, still);
      return;
    }
    transfer(all, queue, sequence, half, bytes);
  }
  finish(all, queue, sequence, IBV_WC_SUCCESS);
}

} // namespace

void complete_in_order(fabric_state& all, queue_state& queue) {
  while (queue.completed < queue.posted && queue.at(queue.completed).carried_out) {
    const std::uint64_t sequence = queue.completed++;
    const work_state& work = queue.at(sequence);
    if (work.status != IBV_WC_SUCCESS || (work.flags & IBV_SEND_SIGNALED) != 0)
      add_completion(all, queue, sequence, work.status);
    if (work.status != IBV_WC_SUCCESS)
      fail_queue(all, queue);
  }
}

void fail_queue(fabric_state& all, queue_state& queue) {
  queue.state = IBV_QPS_ERR;
  while (queue.completed < queue.posted)
    add_completion(all, queue, queue.completed++, IBV_WC_WR_FLUSH_ERR);
}

void carry_out_due(fabric_state& all, guard& held) {
  if (all.carrying_out)
    // Another call carries work out already, perhaps in a hook; that call carries out the new work
    // too.
    return;
  all.carrying_out = true;
  while (auto next = pick(all)) {
    if (all.held)
      --all.allowance;
    carry_out(all, held, *next->queue, next->sequence);
  }
  all.carrying_out = false;
}

std::optional<nanoseconds> next_due(fabric_state& all) {
  if (all.held)
    return std::nullopt;
  std::optional<nanoseconds> first;
  for (const candidate& each : candidates(all)) {
    const nanoseconds due = each.queue->at(each.sequence).due;
    first = first ? std::min(*first, due) : due;
  }
  return first;
}

std::size_t waiting_work(fabric_state& all) {
  std::size_t count = 0;
  for (auto& [number, queue] : all.queues)
    for (std::uint64_t sequence = queue->completed; sequence < queue->posted; ++sequence)
      count += queue->at(sequence).carried_out ? 0 : 1;
  return count;
}

} // namespace peercache::tests
