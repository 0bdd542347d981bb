#pragma once

#include "actors/cluster_overview.hpp"

#include <cstdint>
#include <string>

namespace peercache::actors {

/// Number of the form of all answers under `/api/`, their field `format`. Another meaning of a
/// field, or one less, is another number; a new field is not.
inline constexpr int api_format = 1;

/// The answer of `/api/cluster`: docs/http.md describes it. Threads: any.
/// @pre seen.complete()
std::string overview_json(const cluster_overview& seen, cluster_overview::time_point now,
                          std::uint64_t unix_ms);

/// The answer of `/api/` to a question without one, `why` in words.
std::string api_fault_json(const std::string& why);

} // namespace peercache::actors
