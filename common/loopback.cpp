#include "common/loopback.hpp"

#include <charconv>

namespace peercache {

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost" || host == "::1")
    return true;
  int parts = 0;
  int first = 0;
  for (const char *at = host.data(), *end = at + host.size(); at != end;) {
    unsigned part = 0;
    auto [rest, status] = std::from_chars(at, end, part);
    if (status != std::errc{} || part > 255)
      return false;
    if (parts++ == 0)
      first = static_cast<int>(part);
    if (rest != end && (*rest != '.' || rest + 1 == end))
      return false;
    at = rest == end ? end : rest + 1;
  }
  return parts == 4 && first == 127;
}

} // namespace peercache
