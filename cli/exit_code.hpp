#pragma once

#include "common/error.hpp"

namespace peercache::cli {

/// What every command of `peercache` ends with; scripts rely on the numbers.
enum class exit_code : int {
  ok = 0,
  failed = 1,      ///< The answer is no: a miss, a refusal, wrong bytes.
  usage = 2,       ///< The command line makes no sense.
  degraded = 3,    ///< The cluster answers, but not all of it is well.
  unreachable = 4, ///< No answer from the node.
};

constexpr exit_code exit_code_of(errc code) noexcept {
  switch (code) {
  case errc::invalid_argument:
    return exit_code::usage;
  case errc::timed_out:
  case errc::unreachable:
  case errc::incompatible:
  case errc::closed:
    return exit_code::unreachable;
  default:
    return exit_code::failed;
  }
}

} // namespace peercache::cli
