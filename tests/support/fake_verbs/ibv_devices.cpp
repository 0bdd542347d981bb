#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

/// The fake's ibv_* functions for devices, ports, GIDs and asynchronous events.
namespace peercache::tests {

namespace {

device_state& device_of(ibv_device* device) {
  fabric_state& all = fabric();
  auto found = std::find_if(all.devices.begin(), all.devices.end(),
                            [&](const auto& state) { return &state->device == device; });
  PEERCACHE_ASSERT(found != all.devices.end());
  return **found;
}

const fake_port* port_of(const device_state& device, std::uint32_t port) {
  return port >= 1 && port <= device.setup.ports.size() ? &device.setup.ports[port - 1] : nullptr;
}

ibv_mtu mtu_of(std::uint32_t bytes) {
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

void describe(const fake_port& port, ibv_port_attr& out) {
  out.state = port.state;
  out.max_mtu = IBV_MTU_4096;
  out.active_mtu = mtu_of(port.mtu_bytes);
  out.gid_tbl_len = static_cast<int>(port.gids.size());
  out.max_msg_sz = port.message_bytes_max;
  out.pkey_tbl_len = 1;
  out.lid = port.lid;
  out.active_width = port.width;
  out.active_speed = port.speed;
  out.link_layer = port.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
}

context_state* open_context(device_state& device) {
  auto* context = new context_state;
  context->device = &device;
  context->sz = sizeof(verbs_context);
  context->query_port = [](ibv_context* of, std::uint8_t number, ibv_port_attr* out,
                           std::size_t bytes) { return query_port(of, number, out, bytes); };
  context->context.device = &device.device;
  context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context->context.cmd_fd = -1;
  context->context.async_fd = context->events.get();
  context->context.num_comp_vectors = 1;
  context->context.ops.post_send = post_send;
  context->context.ops.poll_cq = poll_completions;
  context->context.ops.req_notify_cq = request_notification;
  if (device.setup.has_windows) {
    context->context.ops.alloc_mw = allocate_window;
    context->context.ops.dealloc_mw = free_window;
  }
  device.contexts.insert(context);
  return context;
}

int read_gid(ibv_context* context, std::uint32_t port, std::uint32_t index, fake_gid& out) {
  const fake_port* found = port_of(*state_of(context).device, port);
  if (found == nullptr || index >= found->gids.size())
    return EINVAL;
  out = found->gids[index];
  return 0;
}

} // namespace

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t out_bytes) {
  guard held(fabric().lock);
  PEERCACHE_ASSERT(out_bytes == sizeof *out);
  if (const int error = fabric().next_fault(fake_call::query_port))
    return error;
  const fake_port* found = port_of(*state_of(context).device, port);
  if (found == nullptr)
    return EINVAL;
  *out = {};
  describe(*found, *out);
  return 0;
}

} // namespace peercache::tests

using namespace peercache::tests;

ibv_device** ibv_get_device_list(int* count) {
  static ibv_device* nothing[] = {nullptr};
  if (count != nullptr)
    *count = 0;
  fabric_state* all = current_fabric();
  if (all == nullptr)
    return nothing;
  guard held(all->lock);
  if (all->listing_error != 0) {
    errno = all->listing_error;
    return nullptr;
  }
  auto** list = new ibv_device* [all->devices.size() + 1] {};
  std::transform(all->devices.begin(), all->devices.end(), list,
                 [](const auto& device) { return &device->device; });
  if (count != nullptr)
    *count = static_cast<int>(all->devices.size());
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  if (current_fabric() != nullptr)
    delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

ibv_context* ibv_open_device(ibv_device* device) {
  guard held(fabric().lock);
  device_state& state = device_of(device);
  const int error = fabric().next_fault(fake_call::open_device);
  if (error != 0 || state.setup.open_error != 0) {
    errno = error != 0 ? error : state.setup.open_error;
    return nullptr;
  }
  ++fabric().objects.contexts;
  return &open_context(state)->context;
}

int ibv_close_device(ibv_context* context) {
  guard held(fabric().lock);
  context_state& state = state_of(context);
  if (state.children != 0)
    fabric().misuse.emplace_back("a device was closed before what was made from it");
  state.device->contexts.erase(&state);
  --fabric().objects.contexts;
  delete &state;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  guard held(fabric().lock);
  if (const int error = fabric().next_fault(fake_call::query_device))
    return error;
  const fake_device& setup = state_of(context).device->setup;
  *out = {};
  out->max_mr_size = setup.region_bytes_max;
  out->max_qp = 1 << 16;
  out->device_cap_flags = setup.has_windows ? IBV_DEVICE_MEM_WINDOW_TYPE_2B : 0;
  out->max_mw = setup.windows_max;
  out->max_qp_wr = setup.send_depth_max;
  out->max_sge = setup.sge_max;
  out->max_sge_rd = setup.sge_of_read_max;
  out->max_cq = 1 << 16;
  out->max_cqe = setup.completions_max;
  out->max_mr = 1 << 20;
  out->max_pd = 1 << 10;
  out->max_qp_rd_atom = setup.responder_depth;
  out->max_qp_init_rd_atom = setup.initiator_depth;
  out->max_pkeys = 1;
  out->phys_port_cnt = static_cast<std::uint8_t>(setup.ports.size());
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t, std::size_t) {
  guard held(fabric().lock);
  if (!state_of(context).device->setup.has_gid_types)
    return EOPNOTSUPP;
  fake_gid gid;
  if (const int error = read_gid(context, port, index, gid))
    return error;
  if (gid.gid == fake_gid{}.gid)
    return ENODATA;
  *entry = {};
  std::memcpy(entry->gid.raw, gid.gid.data(), gid.gid.size());
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = gid.type;
  return 0;
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* out) {
  guard held(fabric().lock);
  fake_gid gid;
  if (read_gid(context, port, static_cast<std::uint32_t>(index), gid) != 0)
    return -1;
  std::memcpy(out->raw, gid.gid.data(), gid.gid.size());
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  while (event_fd::take(context->async_fd)) {
    guard held(fabric().lock);
    auto& pending = state_of(context).pending;
    if (pending.empty())
      continue; // The queue pair of the event was destroyed before the event was taken.
    *event = pending.front();
    pending.pop_front();
    return 0;
  }
  return -1;
}

// Does nothing: the fake's objects do not wait until their events are acknowledged.
void ibv_ack_async_event(ibv_async_event*) {}

const char* ibv_event_type_str(ibv_event_type) {
  return "an event of the fake";
}

#undef ibv_query_port
/// The header's macro calls this function only for providers without a query_port of their own, and
/// the fake has one.
int ibv_query_port(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) {
  return ENOSYS;
}
