#pragma once

#include "actors/gateway/gateway_actor.hpp"

#include <cstdint>
#include <string>

// What the gateway passes on to the overlap: reports of sessions about the blocks on GPUs, and
// questions of routers and of other nodes.
namespace peercache::actors {

caf::result<bool> take_gpu(gateway_pointer self, std::uint64_t id, std::string& told);
/// Call when a session has ended, or its connection is lost: nobody tells any longer what its
/// engine evicts.
void drop_gpu_report(const gateway_state& state, std::uint64_t id);
caf::result<std::string> overlap_for(gateway_pointer self, std::string& query);
caf::result<std::string> gpu_run_for(gateway_pointer self, std::string& asked);

} // namespace peercache::actors
