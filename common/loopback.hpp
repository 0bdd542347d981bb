#pragma once

#include <string_view>

namespace peercache {

/// Whether `host` is a loopback address, which only processes of this host can connect to:
/// 127.0.0.0/8, ::1 or "localhost".
bool is_loopback(std::string_view host) noexcept;

} // namespace peercache
