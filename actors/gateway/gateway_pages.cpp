#include "actors/gateway/gateway_pages.hpp"

#include "link/protocol/disk_wire.hpp"

#include <utility>

namespace peercache::actors {

caf::result<std::string> hold_for(gateway_pointer self, const std::string& pages, std::uint32_t who,
                                  std::uint32_t for_ms) {
  return self->delegate(self->state.options.pool, hold_atom_v, pages, who, for_ms, from_here{});
}

caf::result<std::string> remove_for(gateway_pointer self, const std::string& keys) {
  return self->delegate(self->state.options.pool, remove_atom_v, keys, from_here{});
}

caf::result<std::string> tell_pool(gateway_pointer self, std::string& pages) {
  return self->delegate(self->state.options.pool, used_atom_v, std::move(pages), from_here{});
}

caf::result<std::string> promote_for(gateway_pointer self, const std::string& pages,
                                     std::uint32_t within_ms) {
  auto& state = self->state;
  if (!state.options.promoter || state.withdraws)
    return std::string(record_count<promoted_page>(pages).value_or(0), '\0');
  return self->delegate(state.options.promoter, promote_atom_v, pages, within_ms, from_here{});
}

caf::result<bool> verify_disk(gateway_pointer self) {
  if (!self->state.options.disk)
    return false;
  return self->delegate(self->state.options.disk, verify_atom_v, from_here{});
}

caf::result<bool> evict_disk(gateway_pointer self, std::uint64_t bytes) {
  if (!self->state.options.disk)
    return false;
  return self->delegate(self->state.options.disk, evict_atom_v, bytes, from_here{});
}

caf::result<std::string> warm(gateway_pointer self, std::string& pages) {
  if (!self->state.options.promoter || self->state.leaving)
    return std::string{};
  return self->delegate(self->state.options.promoter, warm_atom_v, std::move(pages), from_here{});
}

} // namespace peercache::actors
