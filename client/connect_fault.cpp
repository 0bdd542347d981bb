#include "client/connect_fault.hpp"

namespace peercache::client {
error connect_fault(const std::string& host, std::uint16_t port, const error& why) {
  auto address =
      (host.find(':') == std::string::npos ? host : '[' + host + ']') + ':' + std::to_string(port);
  bool silent =
      why.code == errc::unreachable || why.code == errc::timed_out || why.code == errc::closed;
  return {why.code, (silent ? "no peercache-node answers at " + address + ": "
                            : "the peercache-node at " + address + " answers, but ") +
                        why.message};
}

} // namespace peercache::client
