#pragma once

namespace peercache::link {

/// The name under which a command of an operator says hello to a node. A node that refuses such a
/// hello reports no fault: the operator reads the refusal at once.
inline constexpr const char* command_caller = "admin";

} // namespace peercache::link
