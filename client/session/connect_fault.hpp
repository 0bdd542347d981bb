#pragma once

#include "common/error.hpp"
#include "discovery/view.hpp"
#include "link/caf_fault.hpp"

#include <cstdint>
#include <string>

namespace peercache::client {

using link::fault_of;

/// Says why there is no connection to the node at this address, and whether any process answered
/// there. The result has the code of `why`.
error connect_fault(const std::string& host, std::uint16_t port, const error& why);
/// Says that the node answers at this address, but not at its look-up port, and why.
error lookup_port_fault(const std::string& host, std::uint16_t port, const discovery::member& node,
                        const error& why);

} // namespace peercache::client
