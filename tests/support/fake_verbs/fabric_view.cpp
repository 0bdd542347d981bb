#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>

/// The methods of fake_fabric that need to see verbs objects: faults of the objects, and their
/// state.
namespace peercache::tests {

namespace {

std::array<std::uint8_t, 16> zero_but(std::uint8_t at10, std::uint8_t at11) {
  std::array<std::uint8_t, 16> gid{};
  gid[10] = at10;
  gid[11] = at11;
  return gid;
}

} // namespace

fake_gid ipv4_gid(std::uint8_t subnet, std::uint8_t host, ibv_gid_type type) {
  fake_gid made{zero_but(0xff, 0xff), type};
  made.gid[12] = 10;
  made.gid[14] = subnet;
  made.gid[15] = host;
  return made;
}

fake_gid ipv6_gid(std::uint16_t prefix, std::uint8_t host, ibv_gid_type type) {
  fake_gid made{{}, type};
  made.gid[0] = static_cast<std::uint8_t>(prefix >> 8);
  made.gid[1] = static_cast<std::uint8_t>(prefix);
  made.gid[15] = host;
  return made;
}

fake_device roce_device(std::string name, std::uint8_t host, std::uint8_t subnet) {
  fake_device device;
  device.name = std::move(name);
  fake_port port;
  port.gids = {ipv6_gid(0xfe80, host, IBV_GID_TYPE_ROCE_V1), ipv6_gid(0xfe80, host),
               ipv4_gid(subnet, host, IBV_GID_TYPE_ROCE_V1), ipv4_gid(subnet, host)};
  device.ports.push_back(std::move(port));
  return device;
}

fake_device infiniband_device(std::string name, std::uint16_t lid) {
  fake_device device;
  device.name = std::move(name);
  fake_port port;
  port.infiniband = true;
  port.lid = lid;
  port.gids = {ipv6_gid(0xfe80, static_cast<std::uint8_t>(lid), IBV_GID_TYPE_IB)};
  device.ports.push_back(std::move(port));
  return device;
}

void fake_fabric::set_port_state(const std::string& device, std::uint8_t port,
                                 ibv_port_state state) {
  fabric_state& all = fabric();
  guard held(all.lock);
  device_state* found = all.find(device);
  PEERCACHE_ASSERT(found != nullptr && port >= 1 && port <= found->setup.ports.size());
  fake_port& changed = found->setup.ports[port - 1U];
  const bool was_active = changed.state == IBV_PORT_ACTIVE;
  changed.state = state;
  const bool is_active = state == IBV_PORT_ACTIVE;
  if (was_active == is_active)
    return;
  ibv_async_event event{};
  event.event_type = is_active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  event.element.port_num = port;
  for (context_state* context : found->contexts)
    all.tell(*context, event);
}

void fake_fabric::break_device(const std::string& device) {
  fabric_state& all = fabric();
  guard held(all.lock);
  device_state* found = all.find(device);
  PEERCACHE_ASSERT(found != nullptr);
  found->broken = true;
  for (auto& [number, queue] : all.queues)
    if (queue->device == found)
      fail_queue(all, *queue);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  for (context_state* context : found->contexts)
    all.tell(*context, event);
}

std::optional<fake_queue_pair> fake_fabric::queue_pair(std::uint32_t number) const {
  fabric_state& all = fabric();
  guard held(all.lock);
  auto found = all.queues.find(number);
  if (found == all.queues.end())
    return std::nullopt;
  const queue_state& queue = *found->second;
  return fake_queue_pair{queue.device->setup.name, queue.state, queue.attributes, queue.granted};
}

std::vector<fake_region> fake_fabric::regions() const {
  fabric_state& all = fabric();
  guard held(all.lock);
  std::vector<fake_region> views;
  for (const auto& [key, region] : all.local_keys)
    views.push_back({state_of(region->context).device->setup.name, region->address, region->length,
                     region->lkey, region->rkey, region->rights, region->mapping != nullptr});
  std::sort(views.begin(), views.end(),
            [](const auto& a, const auto& b) { return a.local_key < b.local_key; });
  return views;
}

std::vector<fake_window> fake_fabric::windows() const {
  fabric_state& all = fabric();
  guard held(all.lock);
  std::vector<fake_window> views;
  for (const auto& [key, window] : all.windows)
    if (window->region != nullptr)
      views.push_back({state_of(window->context).device->setup.name, key, window->queue_pair,
                       window->address, window->bytes, window->rights});
  return views;
}

void fake_fabric::open_rights(std::uint32_t queue_pair) {
  fabric_state& all = fabric();
  guard held(all.lock);
  const auto found = all.queues.find(queue_pair);
  PEERCACHE_ASSERT(found != all.queues.end());
  found->second->attributes.qp_access_flags = 0xf;
}

fake_counts fake_fabric::counts(const std::string& device) const {
  fabric_state& all = fabric();
  guard held(all.lock);
  device_state* found = all.find(device);
  PEERCACHE_ASSERT(found != nullptr);
  return found->counts;
}

fake_objects fake_fabric::objects() const {
  fabric_state& all = fabric();
  guard held(all.lock);
  return all.objects;
}

std::vector<std::string> fake_fabric::misuse() const {
  fabric_state& all = fabric();
  guard held(all.lock);
  return all.misuse;
}

} // namespace peercache::tests
