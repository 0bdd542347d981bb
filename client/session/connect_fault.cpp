#include "client/session/connect_fault.hpp"

namespace peercache::client {
namespace {

std::string address_of(const std::string& host, std::uint16_t port) {
  return (host.find(':') == std::string::npos ? host : '[' + host + ']') + ':' +
         std::to_string(port);
}

} // namespace

error connect_fault(const std::string& host, std::uint16_t port, const error& why) {
  const auto address = address_of(host, port);
  bool silent =
      why.code == errc::unreachable || why.code == errc::timed_out || why.code == errc::closed;
  return {why.code, (silent ? "no peercache-node answers at " + address + ": "
                            : "the peercache-node at " + address + " answers, but ") +
                        why.message};
}

error lookup_port_fault(const std::string& host, std::uint16_t port, const discovery::member& node,
                        const error& why) {
  return {why.code, "the peercache-node at " + address_of(host, port) +
                        " answers, but not at its look-up port " +
                        address_of(node.host, node.lookup_port) +
                        " (net.lookup_port; one that asks for other certificates, tls.*, is silent "
                        "too): " +
                        why.message};
}

} // namespace peercache::client
