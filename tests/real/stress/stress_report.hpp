#pragma once

#include "stress_ledger.hpp"
#include "stress_plan.hpp"

#include <nlohmann/json.hpp>

namespace peercache::stress {

/// Returns the part of a run's report that is about the workers and does not depend on the nodes.
nlohmann::json report_of(const stress_plan& plan, const stress_ledger& ledger);

} // namespace peercache::stress
