#pragma once

namespace peercache::consumer_of_its_own {

/// Declared only here: shows that `#include "common/error.hpp"` found the program's own header, and
/// not PeerCache's of the same name.
inline constexpr int own_error = 7;

} // namespace peercache::consumer_of_its_own
