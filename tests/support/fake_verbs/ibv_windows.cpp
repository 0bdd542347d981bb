#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <cerrno>

/// The fake's memory windows of type 2B, as the InfiniBand Architecture Specification has them: a
/// window is bound once, to one queue pair, and is bound to nothing again before it ends.
namespace peercache::tests {

namespace {

window_state& state_of(ibv_mw* window) {
  return *static_cast<window_state*>(window);
}

} // namespace

ibv_mw* allocate_window(ibv_pd* domain, ibv_mw_type type) {
  guard held(fabric().lock);
  const int most = state_of(domain->context).device->setup.windows_max;
  int error = fabric().next_fault(fake_call::allocate_window);
  if (most != 0 && fabric().objects.windows >= static_cast<std::size_t>(most))
    error = ENOMEM;
  if (error != 0 || type != IBV_MW_TYPE_2) {
    errno = error != 0 ? error : EINVAL;
    return nullptr;
  }
  auto* window = new window_state;
  window->context = domain->context;
  window->pd = domain;
  window->type = type;
  // The lowest byte is the owner's part of a key.
  window->rkey = window->key = (++fabric().last_key * 0x9e3779b1U) & ~0xffU;
  fabric().windows[window->key] = window;
  ++state_of(domain).children;
  ++fabric().objects.windows;
  return window;
}

int free_window(ibv_mw* window) {
  guard held(fabric().lock);
  fabric().windows.erase(state_of(window).key);
  --state_of(window->pd).children;
  --fabric().objects.windows;
  delete &state_of(window);
  return fabric().next_fault(fake_call::end_window);
}

ibv_wc_status bind_window(fabric_state& all, queue_state& queue, std::uint64_t sequence) {
  const work_state& work = queue.at(sequence);
  if (all.next_fault(fake_call::bind_window) != 0)
    return IBV_WC_MW_BIND_ERR;
  const auto found = all.windows.find(work.remote_key);
  const auto region = all.local_keys.find(work.region_key);
  if (found == all.windows.end() || region == all.local_keys.end())
    return IBV_WC_MW_BIND_ERR;
  window_state& window = *found->second;
  const region_state& of = *region->second;
  const bool within = work.bind_bytes != 0 && work.remote_address >= of.address &&
                      work.bind_bytes <= of.length &&
                      work.remote_address - of.address <= of.length - work.bind_bytes;
  const bool writable = (work.bind_rights & (remote_write_right | remote_atomic_right)) != 0;
  if (window.region != nullptr || window.pd != queue.pd || of.pd != queue.pd || !within ||
      (of.rights & IBV_ACCESS_MW_BIND) == 0 ||
      (writable && (of.rights & IBV_ACCESS_LOCAL_WRITE) == 0))
    return IBV_WC_MW_BIND_ERR;
  all.windows.erase(found);
  window.key = (window.key & ~0xffU) | (work.new_key & 0xffU);
  all.windows[window.key] = &window;
  window.region = region->second;
  window.queue_pair = queue.qp_num;
  window.address = work.remote_address;
  window.bytes = work.bind_bytes;
  window.rights = work.bind_rights;
  ++queue.device->counts.bindings;
  return IBV_WC_SUCCESS;
}

bool has_windows(const fabric_state& all, const region_state& region) {
  return std::any_of(all.windows.begin(), all.windows.end(),
                     [&](const auto& each) { return each.second->region == &region; });
}

void unbind_windows(fabric_state& all, const queue_state& queue) {
  for (const auto& [key, window] : all.windows) {
    if (window->region == nullptr || window->queue_pair != queue.qp_num)
      continue;
    all.misuse.emplace_back("a queue pair went before the windows that are bound to it");
    window->region = nullptr;
  }
}

} // namespace peercache::tests
