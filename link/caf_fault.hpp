#pragma once

#include "common/error.hpp"

#include <caf/error.hpp>

namespace peercache::link {

/// Translates CAF's error for people: the other side's words where it gave some, else ours, never
/// CAF's. `incompatible`: a node answered and refuses us. Threads: any.
error fault_of(const caf::error& why);

} // namespace peercache::link
