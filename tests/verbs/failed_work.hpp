#pragma once

#include "rdma/verbs/completion_queue.hpp"
#include "rdma/verbs/rail_counters.hpp"

#include <string>

namespace peercache::rdma {

/// Returns the numbers of a rail's failed completions by status, as in "12 transport retry counter
/// exceeded".
inline std::string failed_work(const rail_counters& counters) {
  std::string text;
  for (std::size_t i = 0; i < rail_counters::wc_statuses; ++i)
    if (const auto count = counters.errors[i].load(); count != 0)
      text += std::to_string(count) + " " +
              std::string(verbs::status_name(static_cast<ibv_wc_status>(i))) + "; ";
  return text.empty() ? "none" : text;
}

} // namespace peercache::rdma
