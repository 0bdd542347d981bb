#pragma once

namespace peercache::link {

/// The name under which a command of an operator says hello to a node. A node tells nobody whom of
/// these it refuses: the operator reads it at once.
inline constexpr const char* command_caller = "admin";

} // namespace peercache::link
