#pragma once

namespace peercache::consumer_of_its_own {

/// Tells that a program's own common/error.hpp is read, where it includes one.
inline constexpr int own_error = 7;

} // namespace peercache::consumer_of_its_own
