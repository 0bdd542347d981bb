#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

/// The fake's ibv_* functions for protection domains, regions, completion queues and their
/// channels.
namespace peercache::tests {

namespace {

/// A new key for a region. Unlike on most hardware no two keys are alike, so that a mix-up of keys
/// shows.
std::uint32_t new_key() {
  return ++fabric().last_key * 0x9e3779b1U | 1U;
}

int registration_error(const device_state& device, std::uint64_t bytes, unsigned rights) {
  if (const int error = fabric().next_fault(fake_call::register_memory))
    return error;
  if (device.broken)
    return EIO;
  const bool writable_from_afar = (rights & (remote_write_right | remote_atomic_right)) != 0;
  if (bytes == 0 || bytes > device.setup.region_bytes_max ||
      (writable_from_afar && (rights & IBV_ACCESS_LOCAL_WRITE) == 0))
    return EINVAL;
  return bytes > device.setup.memlock_bytes - device.locked_bytes ? ENOMEM : 0;
}

region_state* add_region(ibv_pd* domain, std::byte* memory, std::uint64_t bytes,
                         std::uint64_t address, unsigned rights) {
  device_state& device = *state_of(domain->context).device;
  auto* region = new region_state;
  region->context = domain->context;
  region->pd = domain;
  region->addr = memory;
  region->length = bytes;
  region->lkey = new_key();
  region->rkey = new_key();
  region->memory = memory;
  region->address = address;
  region->rights = rights;
  fabric().local_keys[region->lkey] = region;
  fabric().remote_keys[region->rkey] = region;
  device.locked_bytes += bytes;
  ++device.counts.registrations;
  ++state_of(domain).children;
  ++fabric().objects.regions;
  return region;
}

ibv_mr* register_memory(ibv_pd* domain, void* memory, std::size_t bytes, std::uint64_t address,
                        unsigned rights) {
  guard held(fabric().lock);
  if (const int error = registration_error(*state_of(domain->context).device, bytes, rights)) {
    errno = error;
    return nullptr;
  }
  return add_region(domain, static_cast<std::byte*>(memory), bytes, address, rights);
}

int destroy_error(bool busy, const char* sentence) {
  if (!busy)
    return 0;
  fabric().misuse.emplace_back(sentence);
  return EBUSY;
}

} // namespace

int request_notification(ibv_cq* queue, int) {
  guard held(fabric().lock);
  carry_out_due(fabric(), held);
  // Later completions make an event; completions that are pending already do not.
  state_of(queue).armed = true;
  return 0;
}

} // namespace peercache::tests

using namespace peercache::tests;

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  guard held(fabric().lock);
  if (const int error = fabric().next_fault(fake_call::alloc_pd)) {
    errno = error;
    return nullptr;
  }
  auto* domain = new domain_state;
  domain->context = context;
  ++state_of(context).children;
  ++fabric().objects.domains;
  return domain;
}

int ibv_dealloc_pd(ibv_pd* domain) {
  guard held(fabric().lock);
  if (const int error = destroy_error(state_of(domain).children != 0,
                                      "a protection domain went before its regions or queue pairs"))
    return error;
  --state_of(domain->context).children;
  --fabric().objects.domains;
  delete &state_of(domain);
  return 0;
}

#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, std::size_t bytes, int rights) {
  return register_memory(domain, memory, bytes, reinterpret_cast<std::uint64_t>(memory),
                         static_cast<unsigned>(rights));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, std::size_t bytes, std::uint64_t address,
                         unsigned rights) {
  return register_memory(domain, memory, bytes, address, rights);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                          std::uint64_t address, int fd, int rights) {
  guard held(fabric().lock);
  device_state& device = *state_of(domain->context).device;
  int error = device.setup.has_dmabuf ? 0 : EOPNOTSUPP;
  // The kernel takes no other rights for a dmabuf (uverbs_std_types_mr.c).
  constexpr unsigned known = IBV_ACCESS_LOCAL_WRITE | remote_write_right | IBV_ACCESS_REMOTE_READ |
                             remote_atomic_right | IBV_ACCESS_RELAXED_ORDERING;
  if (error == 0 && (static_cast<unsigned>(rights) & ~known) != 0)
    error = EINVAL;
  if (error == 0)
    error = registration_error(device, bytes, static_cast<unsigned>(rights));
  const std::uint64_t in_page = offset % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  void* mapping = nullptr;
  if (error == 0) {
    mapping = ::mmap(nullptr, bytes + in_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     static_cast<off_t>(offset - in_page));
    error = mapping == MAP_FAILED ? errno : 0;
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  region_state* region = add_region(domain, static_cast<std::byte*>(mapping) + in_page, bytes,
                                    address, static_cast<unsigned>(rights));
  // A dmabuf's region has the offset as its `addr`, as in libibverbs.
  region->addr = reinterpret_cast<void*>(offset);
  region->mapping = mapping;
  region->mapping_bytes = bytes + in_page;
  return region;
}

int ibv_dereg_mr(ibv_mr* region) {
  guard held(fabric().lock);
  region_state& state = state_of(region);
  if (destroy_error(has_windows(fabric(), state),
                    "a region went before the windows that are bound to it") != 0)
    return EINVAL; // As the driver rxe answers; other drivers say EBUSY.
  const int error = fabric().next_fault(fake_call::end_region);
  fabric().local_keys.erase(region->lkey);
  fabric().remote_keys.erase(region->rkey);
  state_of(region->context).device->locked_bytes -= region->length;
  --state_of(region->pd).children;
  --fabric().objects.regions;
  if (state.mapping != nullptr)
    ::munmap(state.mapping, state.mapping_bytes);
  delete &state;
  return error;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  guard held(fabric().lock);
  if (const int error = fabric().next_fault(fake_call::create_channel)) {
    errno = error;
    return nullptr;
  }
  auto* channel = new channel_state;
  channel->context = context;
  channel->fd = channel->events.get();
  channel->refcnt = 0;
  ++state_of(context).children;
  ++fabric().objects.channels;
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  guard held(fabric().lock);
  if (const int error = destroy_error(channel->refcnt != 0,
                                      "a completion channel went before its completion queues"))
    return error;
  --state_of(channel->context).children;
  --fabric().objects.channels;
  delete &state_of(channel);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  guard held(fabric().lock);
  const device_state& device = *state_of(context).device;
  int error = fabric().next_fault(fake_call::create_completion_queue);
  if (error == 0 && device.broken)
    error = EIO;
  if (error == 0 && (entries < 1 || entries > device.setup.completions_max || vector != 0))
    error = EINVAL;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto* queue = new completion_state;
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = cq_context;
  queue->cqe = entries;
  if (channel != nullptr)
    ++channel->refcnt;
  ++state_of(context).children;
  ++fabric().objects.completion_queues;
  return queue;
}

int ibv_destroy_cq(ibv_cq* queue) {
  guard held(fabric().lock);
  completion_state& state = state_of(queue);
  if (const int error =
          destroy_error(!state.queues.empty(), "a completion queue went before its queue pairs"))
    return error;
  // libibverbs would wait for ever until the events are acknowledged.
  if (state.unacknowledged != 0)
    fabric().misuse.emplace_back("a completion queue was destroyed with unacknowledged events");
  if (queue->channel != nullptr) {
    --queue->channel->refcnt;
    auto& pending = state_of(queue->channel).pending;
    std::erase(pending, &state);
  }
  --state_of(queue->context).children;
  --fabric().objects.completion_queues;
  delete &state;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** cq_context) {
  while (event_fd::take(channel->fd)) {
    guard held(fabric().lock);
    auto& pending = state_of(channel).pending;
    if (pending.empty())
      continue; // The completion queue of the event was destroyed before the event was taken.
    *queue = pending.front();
    *cq_context = pending.front()->cq_context;
    ++pending.front()->unacknowledged;
    pending.pop_front();
    return 0;
  }
  return -1;
}

void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  guard held(fabric().lock);
  PEERCACHE_ASSERT(state_of(queue).unacknowledged >= count);
  state_of(queue).unacknowledged -= count;
}
