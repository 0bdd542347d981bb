#pragma once

#include <caf/allowed_unsafe_message_type.hpp>

namespace peercache::link {

/// The last element of messages that only this process may send: CAF has no name for the type, so
/// no bytes from another process become such a message. Whoever speaks CAF's protocol can send
/// every other message to each actor that has ever sent something to another process
/// (`wire_version`).
struct from_here {};

} // namespace peercache::link

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::link::from_here)
