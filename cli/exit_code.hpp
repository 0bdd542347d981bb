#pragma once

#include "common/error.hpp"

#include <cstddef>
#include <string_view>

namespace peercache::cli {

/// The exit codes of all commands of `peercache`; scripts rely on the numbers.
enum class exit_code : int {
  ok = 0,
  failed = 1,      ///< The command's answer is no: a miss, a refusal, wrong bytes.
  usage = 2,       ///< The command line makes no sense.
  degraded = 3,    ///< The cluster answers, but not all of it is well.
  unreachable = 4, ///< The node does not answer.
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

/// The id of an error in JSON answers; scripts rely on the words.
constexpr std::string_view id_of(errc code) noexcept {
  switch (code) {
  case errc::invalid_argument:
    return "invalid-argument";
  case errc::not_found:
    return "not-found";
  case errc::refused:
    return "refused";
  case errc::timed_out:
    return "timed-out";
  case errc::unreachable:
    return "unreachable";
  case errc::incompatible:
    return "incompatible";
  case errc::out_of_memory:
    return "out-of-memory";
  case errc::io_failed:
    return "io-failed";
  case errc::closed:
    return "closed";
  case errc::out_of_space:
    return "out-of-space";
  }
  return "unknown";
}

/// The exit code of a question about `asked` pages, of which `there` were found; about `unknown` of
/// them nobody could be asked.
constexpr exit_code exit_code_of_pages(std::size_t asked, std::size_t there,
                                       std::size_t unknown) noexcept {
  if (unknown > 0)
    return unknown == asked ? exit_code::unreachable : exit_code::degraded;
  return there == asked ? exit_code::ok : exit_code::failed;
}

} // namespace peercache::cli
