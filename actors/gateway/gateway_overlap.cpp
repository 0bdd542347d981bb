#include "actors/gateway/gateway_overlap.hpp"

#include <chrono>
#include <cstdint>
#include <utility>

namespace peercache::actors {

namespace {

constexpr const char* no_overlap = "this node answers no overlap queries";

} // namespace

caf::result<bool> take_gpu(gateway_pointer self, std::uint64_t id, std::string& told) {
  auto& state = self->state;
  const auto* session = state.sessions.find(id);
  if (session == nullptr || session->silent)
    return refused("no such session");
  if (!state.options.overlap)
    return refused(no_overlap);
  return self->delegate(state.options.overlap, gpu_atom_v, id, std::move(told), from_here{});
}

void drop_gpu_report(const gateway_state& state, std::uint64_t id) {
  if (state.options.overlap)
    caf::anon_send(state.options.overlap, leave_atom_v, id, from_here{});
}

caf::result<std::string> overlap_for(gateway_pointer self, std::string& query) {
  if (!self->state.options.overlap)
    return refused(no_overlap);
  const std::chrono::nanoseconds now = self->clock().now().time_since_epoch();
  return self->delegate(self->state.options.overlap, locate_atom_v, std::move(query),
                        std::int64_t{now.count()}, from_here{});
}

caf::result<std::string> gpu_run_for(gateway_pointer self, std::string& asked) {
  if (!self->state.options.overlap)
    return refused(no_overlap);
  return self->delegate(self->state.options.overlap, gpu_atom_v, std::move(asked), from_here{});
}

} // namespace peercache::actors
