#include "handoff/links/link_event.hpp"

namespace peercache::handoff {

std::string_view to_string(loss_reason reason) noexcept {
  switch (reason) {
  case loss_reason::unreachable:
    return "unreachable";
  case loss_reason::refused:
    return "refused";
  case loss_reason::closed:
    return "closed";
  case loss_reason::silent:
    return "silent";
  case loss_reason::malformed:
    return "malformed";
  case loss_reason::queue_full:
    return "queue full";
  }
  return "unknown";
}

} // namespace peercache::handoff
