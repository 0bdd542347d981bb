#pragma once

#include "common/result.hpp"
#include "config/load.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace peercache::config {

/// Checks the configuration for faults that concern several options, or more than an option's
/// bounds. Errors: all faults at once, one line each: what is wrong and where it was set, why that
/// cannot be, what to do.
result<void> validate(const loaded_config& loaded);

/// Joins several faults to one error, one line per fault. @pre !faults.empty()
error joined_faults(const std::vector<std::string>& faults);

} // namespace peercache::config
