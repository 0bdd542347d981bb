#pragma once

#include "stress_ledger.hpp"
#include "stress_plan.hpp"

#include <nlohmann/json.hpp>

namespace peercache::stress {

/// The workers' part of a run's report, which does not depend on its nodes.
nlohmann::json report_of(const stress_plan& plan, const stress_ledger& ledger);

} // namespace peercache::stress
