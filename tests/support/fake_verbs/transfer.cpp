#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <cstring>

/// Connectivity, access rights, and the bytes of transfers in the fake provider.
namespace peercache::tests {

namespace {

const fake_port& port_of(const queue_state& queue) {
  return queue.device->setup.ports[queue.attributes.port_num - 1U];
}

bool same_subnet(const fake_port& a, const fake_port& b) {
  return !a.gids.empty() && !b.gids.empty() &&
         std::equal(a.gids[0].gid.begin(), a.gids[0].gid.begin() + 8, b.gids[0].gid.begin());
}

bool has_gid(const fake_port& port, const ibv_gid& gid, ibv_gid_type type) {
  return std::any_of(port.gids.begin(), port.gids.end(), [&](const fake_gid& entry) {
    return entry.type == type && std::memcmp(entry.gid.data(), gid.raw, sizeof gid.raw) == 0;
  });
}

/// Whether a packet of this queue pair arrives at that port.
bool leads_to(const queue_state& from, const fake_port& to) {
  const fake_port& own = port_of(from);
  const ibv_ah_attr& address = from.attributes.ah_attr;
  if (own.state != IBV_PORT_ACTIVE || to.state != IBV_PORT_ACTIVE ||
      own.infiniband != to.infiniband)
    return false;
  const bool gid_fits = address.is_global != 0 &&
                        has_gid(to, address.grh.dgid, own.gids[address.grh.sgid_index].type);
  if (!own.infiniband)
    return gid_fits;
  return address.dlid == to.lid && (same_subnet(own, to) || gid_fits);
}

queue_state* responder_of(fabric_state& all, const queue_state& requester) {
  auto found = all.queues.find(requester.attributes.dest_qp_num);
  return found == all.queues.end() ? nullptr : found->second;
}

std::byte* place_in(const region_state& region, std::uint64_t address) {
  return region.memory + (address - region.address);
}

bool holds(const region_state& region, std::uint64_t address, std::uint64_t bytes) {
  return address >= region.address && bytes <= region.length &&
         address - region.address <= region.length - bytes;
}

const region_state* find_region(const std::unordered_map<std::uint32_t, region_state*>& keys,
                                std::uint32_t key, const ibv_pd* domain) {
  auto found = keys.find(key);
  return found != keys.end() && found->second->pd == domain ? found->second : nullptr;
}

/// The memory that a remote key opens to the other end of a queue pair; `region` is null when it
/// opens nothing.
struct opened {
  const region_state* region = nullptr;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  unsigned rights = 0;
};

opened open_remote(const fabric_state& all, std::uint32_t key, const queue_state& responder) {
  if (const auto found = all.windows.find(key); found != all.windows.end()) {
    const window_state& window = *found->second;
    if (window.region == nullptr || window.queue_pair != responder.qp_num ||
        window.pd != responder.pd)
      return {};
    return {window.region, window.address, window.bytes, window.rights};
  }
  const region_state* region = find_region(all.remote_keys, key, responder.pd);
  return region == nullptr ? opened{}
                           : opened{region, region->address, region->length, region->rights};
}

unsigned remote_right(ibv_wr_opcode opcode) {
  switch (opcode) {
  case IBV_WR_RDMA_READ:
    return IBV_ACCESS_REMOTE_READ;
  case IBV_WR_RDMA_WRITE:
    return remote_write_right;
  default:
    return remote_atomic_right;
  }
}

/// How many READs the requester has under way, as the responder sees it.
std::uint64_t reads_under_way(const queue_state& requester) {
  return std::min<std::uint64_t>(requester.posted - requester.completed,
                                 requester.attributes.max_rd_atomic);
}

ibv_wc_status check_responder(const queue_state& requester, const queue_state& responder,
                              const work_state& work) {
  if ((responder.attributes.qp_access_flags & remote_right(work.opcode)) == 0)
    return IBV_WC_REM_INV_REQ_ERR;
  const bool counts_as_read = work.opcode != IBV_WR_RDMA_WRITE;
  if (counts_as_read && requester.attributes.max_rd_atomic == 0)
    return IBV_WC_LOC_QP_OP_ERR;
  if (counts_as_read && reads_under_way(requester) > responder.attributes.max_dest_rd_atomic)
    return IBV_WC_REM_INV_REQ_ERR;
  return IBV_WC_SUCCESS;
}

ibv_wc_status check_remote(fabric_state& all, const queue_state& responder,
                           const work_state& work) {
  if (work.bytes == 0)
    return IBV_WC_SUCCESS;
  const opened memory = open_remote(all, work.remote_key, responder);
  const bool allowed = memory.region != nullptr && work.remote_address >= memory.address &&
                       work.bytes <= memory.bytes &&
                       work.remote_address - memory.address <= memory.bytes - work.bytes &&
                       (memory.rights & remote_right(work.opcode)) != 0;
  return allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
}

ibv_wc_status check_local(fabric_state& all, queue_state& requester, std::uint64_t sequence) {
  const work_state& work = requester.at(sequence);
  const unsigned needed = work.opcode == IBV_WR_RDMA_WRITE ? 0U : unsigned{IBV_ACCESS_LOCAL_WRITE};
  for (std::uint32_t piece = 0; piece < work.pieces; ++piece) {
    const ibv_sge& part = requester.pieces_of(sequence)[piece];
    const region_state* region = find_region(all.local_keys, part.lkey, requester.pd);
    if (region == nullptr || !holds(*region, part.addr, part.length) || part.length == 0 ||
        (region->rights & needed) != needed)
      return IBV_WC_LOC_PROT_ERR;
  }
  return IBV_WC_SUCCESS;
}

void carry_atomic(const work_state& work, std::byte* remote, std::byte* local) {
  std::uint64_t old = 0;
  std::memcpy(&old, remote, sizeof old);
  std::uint64_t next = old + work.compare_add;
  if (work.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
    next = old == work.compare_add ? work.swap : old;
  std::memcpy(remote, &next, sizeof next);
  std::memcpy(local, &old, sizeof old);
}

} // namespace

bool reachable(fabric_state& all, const queue_state& requester) {
  const queue_state* responder = responder_of(all, requester);
  if (responder == nullptr || (responder->state != IBV_QPS_RTR && responder->state != IBV_QPS_RTS))
    return false;
  return leads_to(requester, port_of(*responder)) && leads_to(*responder, port_of(requester)) &&
         responder->attributes.dest_qp_num == requester.qp_num &&
         responder->attributes.rq_psn == requester.attributes.sq_psn &&
         responder->attributes.path_mtu == requester.attributes.path_mtu;
}

ibv_wc_status check_access(fabric_state& all, queue_state& requester, std::uint64_t sequence) {
  const work_state& work = requester.at(sequence);
  const queue_state* responder = responder_of(all, requester);
  if (responder == nullptr)
    return IBV_WC_RETRY_EXC_ERR;
  if (work.bytes > port_of(requester).message_bytes_max)
    return IBV_WC_LOC_LEN_ERR;
  const bool is_atomic = work.opcode != IBV_WR_RDMA_READ && work.opcode != IBV_WR_RDMA_WRITE;
  if (is_atomic && (work.bytes != 8 || work.pieces != 1 || work.remote_address % 8 != 0))
    return IBV_WC_REM_INV_REQ_ERR;
  if (const auto status = check_responder(requester, *responder, work); status != IBV_WC_SUCCESS)
    return status;
  if (const auto status = check_remote(all, *responder, work); status != IBV_WC_SUCCESS)
    return status;
  return check_local(all, requester, sequence);
}

void transfer(fabric_state& all, queue_state& requester, std::uint64_t sequence,
              std::uint64_t first, std::uint64_t last) {
  const work_state& work = requester.at(sequence);
  std::uint64_t at = 0;
  for (std::uint32_t piece = 0; piece < work.pieces; ++piece) {
    const ibv_sge& part = requester.pieces_of(sequence)[piece];
    const std::uint64_t begin = std::max(at, first);
    const std::uint64_t end = std::min(at + part.length, last);
    if (begin < end) {
      std::byte* local = place_in(*all.local_keys.at(part.lkey), part.addr + (begin - at));
      const opened memory = open_remote(all, work.remote_key, *responder_of(all, requester));
      std::byte* remote = place_in(*memory.region, work.remote_address + begin);
      if (work.opcode == IBV_WR_RDMA_READ)
        std::memcpy(local, remote, end - begin);
      else if (work.opcode == IBV_WR_RDMA_WRITE)
        std::memcpy(remote, local, end - begin);
      else
        carry_atomic(work, remote, local);
    }
    at += part.length;
  }
  if (work.opcode == IBV_WR_RDMA_READ) {
    queue_state& responder = *responder_of(all, requester);
    const std::uint64_t mtu_bytes = 128U << responder.attributes.path_mtu;
    responder.device->counts.served_bytes += last - first;
    responder.packets_answered +=
        std::max<std::uint64_t>(1, (last - first + mtu_bytes - 1) / mtu_bytes);
  }
}

} // namespace peercache::tests
