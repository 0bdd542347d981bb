#pragma once

#include "actors/monitoring/cluster_overview.hpp"

#include <cstdint>
#include <string>

namespace peercache::actors {

/// Version of the form of all answers under `/api/`, told in their field `format`. The number
/// changes when a field gets another meaning or is left out, and not when a field is added.
inline constexpr int api_format = 1;

/// The answer of `/api/cluster`: docs/http.md describes it. Threads: any.
/// @pre seen.complete()
std::string overview_json(const cluster_overview& seen, cluster_overview::time_point now,
                          std::uint64_t unix_ms);

/// The JSON that `/api/` sends where a question cannot be answered, or not yet; `why` says the
/// reason in words.
std::string api_fault_json(const std::string& why);

} // namespace peercache::actors
