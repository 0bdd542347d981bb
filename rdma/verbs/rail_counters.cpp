#include "rdma/verbs/rail_counters.hpp"

#include "rdma/verbs/completion_queue.hpp"

namespace peercache::rdma {

const char* rail_counters::status_name(std::size_t status) noexcept {
  return verbs::status_name(static_cast<ibv_wc_status>(status));
}

} // namespace peercache::rdma
