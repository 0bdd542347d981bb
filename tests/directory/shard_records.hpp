#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "directory/page_location.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace peercache::directory {

inline constexpr incarnation alice{1, 1};
inline constexpr incarnation bob{2, 2};

inline page_key numbered_key(std::size_t number) {
  return key_space{}.key_of(std::to_string(number));
}

/// A location whose fields all follow from holder and generation, so that one that is mixed from
/// two records differs from every real one.
inline page_location location_at(incarnation holder, std::uint64_t gen, tier where = tier::memory) {
  return {.node = {holder.low},
          .holder = holder,
          .gen = {gen},
          .checksum = gen * 1000003,
          .slot = {static_cast<std::uint32_t>(gen * 17)},
          .length_bytes = static_cast<std::uint32_t>(gen * 64),
          .where = where};
}

} // namespace peercache::directory
