#pragma once

#include "common/result.hpp"

#include <chrono>
#include <string_view>

namespace peercache::net {

/// The address at which the service manager that started this process waits for its state: the
/// environment's NOTIFY_SOCKET, or null when no service manager waits. Threads: no thread may
/// change the environment during the call.
const char* service_manager_address() noexcept;

/// Tells a service manager a state as sd_notify(3) has it, such as "READY=1": one datagram to a
/// Unix socket, without a library. `address` is a path, or '@' and an abstract name; null tells
/// nobody, and is not an error.
///
/// Threads: any. Blocks for at most `at_most`, while the manager's queue is full. Errors:
/// `invalid_argument` for an address that is not of this kind, `io_failed` when nobody listens
/// there or the queue stays full.
result<void> tell_service_manager(const char* address, std::string_view state,
                                  std::chrono::milliseconds at_most);

} // namespace peercache::net
