#include "common/page_status.hpp"

#include <array>

namespace peercache {

static_assert(static_cast<std::size_t>(page_status::pending) + 1 == page_status_count);

std::string_view to_string(page_status status) noexcept {
  constexpr std::array<std::string_view, page_status_count> words = {
      "hit",       "stored",   "duplicate", "not_found",   "stale",        "holder_gone",
      "wrong_key", "corrupt",  "timed_out", "unreachable", "breaker_open", "refused",
      "no_space",  "bad_size", "closed",    "pending",
  };
  auto index = static_cast<std::size_t>(status);
  return index < words.size() ? words[index] : "unknown";
}

} // namespace peercache
