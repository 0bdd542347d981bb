#pragma once

#include <cstdint>

namespace peercache {

/// When the checksum of a page that was read is compared.
enum class verify_mode : std::uint8_t { off, sample, always };

/// What `set` does with a key that is readable somewhere in the cluster.
enum class duplicate_mode : std::uint8_t { skip, store };

} // namespace peercache
