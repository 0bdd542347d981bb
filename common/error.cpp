#include "common/error.hpp"

namespace peercache {

std::string_view to_string(errc code) noexcept {
  switch (code) {
  case errc::invalid_argument:
    return "invalid argument";
  case errc::not_found:
    return "not found";
  case errc::refused:
    return "refused";
  case errc::timed_out:
    return "timed out";
  case errc::unreachable:
    return "unreachable";
  case errc::incompatible:
    return "incompatible";
  case errc::out_of_memory:
    return "out of memory";
  case errc::io_failed:
    return "I/O failed";
  case errc::closed:
    return "closed";
  case errc::out_of_space:
    return "out of space";
  }
  return "unknown error";
}

std::string to_string(const error& err) {
  std::string text{to_string(err.code)};
  return err.message.empty() ? text : text + ": " + err.message;
}

} // namespace peercache
