#pragma once

#include "stress_ledger.hpp"
#include "stress_plan.hpp"

#include <nlohmann/json.hpp>

namespace peercache::stress {

/// What the workers did and saw: the part of a run's report that does not depend on its nodes.
nlohmann::json report_of(const stress_plan& plan, const stress_ledger& ledger);

} // namespace peercache::stress
