#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace peercache {

/// Kinds of failure of a call as a whole (a single page's fate is a `page_status`).
enum class errc : std::uint8_t {
  invalid_argument = 1,
  not_found,
  refused, ///< A limit was reached, or the other side does not accept us.
  timed_out,
  unreachable,  ///< No connection to the peer.
  incompatible, ///< Wire version or cluster name differ.
  out_of_memory,
  io_failed,
  closed,       ///< The object has been shut down.
  out_of_space, ///< The disk is full.
};

std::string_view to_string(errc code) noexcept;

/// What, why, and what to do, in `message`; the kind for programs, in `code`.
struct error {
  errc code = errc::invalid_argument;
  std::string message;
};

/// "timed out: <message>".
std::string to_string(const error& err);

} // namespace peercache
