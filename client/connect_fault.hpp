#pragma once

#include "common/error.hpp"

#include <caf/error.hpp>

#include <cstdint>
#include <string>

namespace peercache::client {

/// Translates CAF's error for people: the other side's words where it gave some, else ours, never
/// CAF's. `incompatible`: a node answered and refuses us. Threads: any.
error fault_of(const caf::error& why);

/// Says why there is no connection to the node at this address, and whether any process answered
/// there. The result has the code of `why`.
error connect_fault(const std::string& host, std::uint16_t port, const error& why);

} // namespace peercache::client
