#pragma once

#include "common/error.hpp"

#include <caf/error.hpp>

namespace peercache::link {

/// Translates CAF's error for people: into words of ours, or those of the peer that sent the error,
/// never CAF's. `incompatible`: a node answered and refuses this process. Threads: any.
error fault_of(const caf::error& why);

} // namespace peercache::link
