#pragma once

#include "client/session/session.hpp"

#include <string_view>

namespace peercache::client {

/// Asks the node of this host to clear a space. Threads: any. Bound: returns by the deadline, even
/// without an answer.
clear_result clear_space(session& with, std::string_view space, deadline until);

} // namespace peercache::client
