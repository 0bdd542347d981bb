#pragma once

#include <caf/allowed_unsafe_message_type.hpp>

namespace peercache::link {

/// The last element of messages that only this process may send (`wire_version`, for other
/// processes cannot name them): CAF has no name for the type, so no bytes from another process
/// become such a message.
struct from_here {};

} // namespace peercache::link

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::link::from_here)
