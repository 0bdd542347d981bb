#include "handoff/room_state.hpp"

#include "common/assert.hpp"

#include <array>

namespace peercache::handoff {

std::string_view to_string(room_state state) noexcept {
  constexpr std::array<std::string_view, room_state_count> words{
      "failed", "bootstrapping", "waiting_for_input", "transferring", "success"};
  PEERCACHE_ASSERT(static_cast<std::size_t>(state) < words.size());
  return words[static_cast<std::size_t>(state)];
}

std::string_view to_string(failure_kind kind) noexcept {
  constexpr std::array<std::string_view, failure_kind_count> words{
      "aborted", "another_rank", "memory",   "peer_aborted", "peer_lost",
      "misfit",  "read",         "protocol", "lease"};
  PEERCACHE_ASSERT(static_cast<std::size_t>(kind) < words.size());
  return words[static_cast<std::size_t>(kind)];
}

} // namespace peercache::handoff
