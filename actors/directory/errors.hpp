#pragma once

#include "common/result.hpp"

#include <caf/error.hpp>
#include <caf/result.hpp>
#include <caf/sec.hpp>

namespace peercache::actors {

/// Converts a `result` of PeerCache to CAF's, at the edge of an actor.
template <class T>
caf::result<T> to_caf(result<T> from) {
  if (from)
    return std::move(*from);
  return caf::make_error(caf::sec::runtime_error, to_string(from.error()));
}

} // namespace peercache::actors
