#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

/// The fake's ibv_* functions for queue pairs, except posting.
namespace peercache::tests {

namespace {

constexpr int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr std::uint32_t largest_24_bits = 0xffffff;

int creation_error(const device_state& device, const ibv_qp_init_attr& wanted) {
  if (const int error = fabric().next_fault(fake_call::create_queue_pair))
    return error;
  if (device.broken)
    return EIO;
  if (wanted.qp_type != IBV_QPT_RC)
    return EOPNOTSUPP;
  const auto depth_max = static_cast<std::uint32_t>(device.setup.send_depth_max);
  const auto sge_max = static_cast<std::uint32_t>(device.setup.sge_max);
  const bool fits = wanted.cap.max_send_wr <= depth_max && wanted.cap.max_recv_wr <= depth_max &&
                    wanted.cap.max_send_sge <= sge_max && wanted.cap.max_recv_sge <= sge_max;
  return fits && wanted.send_cq != nullptr && wanted.recv_cq != nullptr ? 0 : EINVAL;
}

void allocate_ring(queue_state& queue) {
  const std::size_t slots = std::bit_ceil(std::max(queue.granted.max_send_wr, 1U));
  queue.ring.resize(slots);
  queue.pieces.resize(slots * queue.granted.max_send_sge);
}

/// Keeps or removes the completions of a queue pair that is being destroyed.
void leave_completions(queue_state& queue, bool keep) {
  auto& entries = state_of(queue.send_cq).entries;
  if (!keep)
    std::erase_if(entries, [&](const completion_entry& entry) { return entry.queue == &queue; });
  for (completion_entry& entry : entries)
    if (entry.queue == &queue)
      entry.queue = nullptr;
}

int to_init(queue_state& queue, const ibv_qp_attr& to, int mask) {
  if (const int error = fabric().next_fault(fake_call::to_init))
    return error;
  const auto ports = queue.device->setup.ports.size();
  if (queue.state != IBV_QPS_RESET || mask != init_mask || to.port_num < 1 || to.port_num > ports ||
      to.pkey_index != 0)
    return EINVAL;
  queue.attributes.port_num = to.port_num;
  queue.attributes.qp_access_flags = to.qp_access_flags;
  return 0;
}

bool address_is_sane(const fake_port& port, const ibv_ah_attr& address) {
  if (!port.infiniband && address.is_global == 0)
    return false;
  if (port.infiniband && address.is_global == 0 && address.dlid == 0)
    return false;
  return address.sl <= 15 &&
         (address.is_global == 0 ||
          (address.grh.sgid_index < port.gids.size() && address.grh.hop_limit > 0));
}

int to_ready_to_receive(queue_state& queue, const ibv_qp_attr& to, int mask) {
  if (const int error = fabric().next_fault(fake_call::to_ready_to_receive))
    return error;
  if (queue.state != IBV_QPS_INIT || mask != rtr_mask)
    return EINVAL;
  const fake_port& port = queue.device->setup.ports[queue.attributes.port_num - 1U];
  const bool fits = to.path_mtu >= IBV_MTU_256 && to.path_mtu <= IBV_MTU_4096 &&
                    128U << to.path_mtu <= port.mtu_bytes && to.dest_qp_num <= largest_24_bits &&
                    to.rq_psn <= largest_24_bits &&
                    to.max_dest_rd_atomic <= queue.device->setup.responder_depth &&
                    to.ah_attr.port_num == queue.attributes.port_num &&
                    address_is_sane(port, to.ah_attr);
  if (!fits)
    return EINVAL;
  queue.attributes.ah_attr = to.ah_attr;
  queue.attributes.path_mtu = to.path_mtu;
  queue.attributes.dest_qp_num = to.dest_qp_num;
  queue.attributes.rq_psn = to.rq_psn;
  queue.attributes.max_dest_rd_atomic = to.max_dest_rd_atomic;
  queue.attributes.min_rnr_timer = to.min_rnr_timer;
  return 0;
}

int to_ready_to_send(queue_state& queue, const ibv_qp_attr& to, int mask) {
  if (const int error = fabric().next_fault(fake_call::to_ready_to_send))
    return error;
  if (queue.state != IBV_QPS_RTR || mask != rts_mask || to.sq_psn > largest_24_bits ||
      to.max_rd_atomic > queue.device->setup.initiator_depth || to.timeout > 31 ||
      to.retry_cnt > 7 || to.rnr_retry > 7)
    return EINVAL;
  if (to.retry_cnt == 7 || to.timeout == 0)
    fabric().misuse.emplace_back("a queue pair would wait for ever for a dead peer");
  queue.attributes.timeout = to.timeout;
  queue.attributes.retry_cnt = to.retry_cnt;
  queue.attributes.rnr_retry = to.rnr_retry;
  queue.attributes.sq_psn = to.sq_psn;
  queue.attributes.max_rd_atomic = to.max_rd_atomic;
  return 0;
}

void to_reset(queue_state& queue) {
  leave_completions(queue, false);
  queue.posted = queue.completed = queue.freed = queue.packets_answered = 0;
  queue.attributes = {};
}

int change_state(queue_state& queue, const ibv_qp_attr& to, int mask) {
  switch (to.qp_state) {
  case IBV_QPS_RESET:
    to_reset(queue);
    return 0;
  case IBV_QPS_INIT:
    return to_init(queue, to, mask);
  case IBV_QPS_RTR:
    return to_ready_to_receive(queue, to, mask);
  case IBV_QPS_RTS:
    return to_ready_to_send(queue, to, mask);
  case IBV_QPS_ERR:
    fail_queue(fabric(), queue);
    return 0;
  default:
    return EINVAL;
  }
}

} // namespace

} // namespace peercache::tests

using namespace peercache::tests;

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  guard held(fabric().lock);
  device_state& device = *state_of(domain->context).device;
  if (const int error = creation_error(device, *wanted)) {
    errno = error;
    return nullptr;
  }
  auto* queue = new queue_state;
  queue->context = domain->context;
  queue->pd = domain;
  queue->send_cq = wanted->send_cq;
  queue->recv_cq = wanted->recv_cq;
  queue->qp_context = wanted->qp_context;
  queue->qp_type = wanted->qp_type;
  queue->state = IBV_QPS_RESET;
  queue->qp_num = ++fabric().last_number;
  queue->device = &device;
  queue->granted = wanted->cap;
  queue->signal_all = wanted->sq_sig_all != 0;
  allocate_ring(*queue);
  fabric().queues[queue->qp_num] = queue;
  state_of(wanted->send_cq).queues.push_back(queue);
  ++state_of(domain).children;
  ++device.counts.queue_pairs;
  ++fabric().objects.queue_pairs;
  return queue;
}

int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* to, int mask) {
  guard held(fabric().lock);
  queue_state& queue = state_of(pair);
  if ((mask & IBV_QP_STATE) == 0)
    return EINVAL;
  if (queue.device->broken)
    return EIO;
  if (const int error = change_state(queue, *to, mask))
    return error;
  queue.state = to->qp_state;
  return 0;
}

int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* out, int, ibv_qp_init_attr* created) {
  guard held(fabric().lock);
  const queue_state& queue = state_of(pair);
  *out = queue.attributes;
  out->qp_state = out->cur_qp_state = queue.state;
  out->rq_psn = static_cast<std::uint32_t>(queue.attributes.rq_psn + queue.packets_answered) &
                largest_24_bits;
  out->cap = queue.granted;
  *created = {};
  created->cap = queue.granted;
  created->qp_type = queue.qp_type;
  created->send_cq = queue.send_cq;
  created->recv_cq = queue.recv_cq;
  return 0;
}

int ibv_destroy_qp(ibv_qp* pair) {
  guard held(fabric().lock);
  queue_state& queue = state_of(pair);
  leave_completions(queue, fabric().keep_completions);
  unbind_windows(fabric(), queue);
  std::erase(state_of(queue.send_cq).queues, &queue);
  fabric().queues.erase(queue.qp_num);
  --state_of(queue.pd).children;
  --fabric().objects.queue_pairs;
  for (context_state* context : queue.device->contexts)
    std::erase_if(context->pending, [&](const ibv_async_event& event) {
      return event.element.qp == pair && event.event_type <= IBV_EVENT_PATH_MIG_ERR &&
             event.event_type != IBV_EVENT_CQ_ERR;
    });
  delete &queue;
  return 0;
}
