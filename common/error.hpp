#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peercache {

/// Kinds of failure of a call as a whole; the fate of a single page is a `page_status`.
enum class errc : std::uint8_t {
  invalid_argument = 1,
  not_found,
  refused, ///< A limit was reached, or a process, file or device does not accept the request.
  timed_out,
  unreachable,  ///< There is no connection to the peer.
  incompatible, ///< The wire version or the cluster's name differs.
  out_of_memory,
  io_failed,
  closed,       ///< The client or node has been shut down.
  out_of_space, ///< The disk is full.
};

std::string_view to_string(errc code) noexcept;

/// Why a call failed: `message` says to people what, why, and what to do; `code` is the kind for
/// programs.
struct error {
  errc code = errc::invalid_argument;
  std::string message;
};

/// Text of an error: "timed out: <message>".
std::string to_string(const error& err);

} // namespace peercache
