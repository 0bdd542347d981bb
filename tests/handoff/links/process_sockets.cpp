#include "tests/handoff/links/process_sockets.hpp"

#include <filesystem>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>

namespace peercache::handoff::testing {
namespace {

using name_call = int (*)(int, sockaddr*, socklen_t*);

/// Returns the local or remote address of a socket; empty when it has none.
std::string address_of(int fd, name_call ask) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (ask(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return {};
  return {reinterpret_cast<const char*>(&at), size};
}

/// The kernel's numbers for states of a TCP connection. The header that names them conflicts with
/// the one whose tcp_info counts bytes.
constexpr std::uint8_t state_established = 1;
constexpr std::uint8_t state_listen = 10;

/// Whether connections wait at a listener to be accepted. tcp_info tells that too, but qemu hands
/// only its first four bytes on (scripts/test-arm64).
bool has_waiting(int listener) {
  pollfd asked{listener, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

/// A socket with this many unread bytes may be full: then the kernel accepts nothing further for
/// it, not even the end of the connection.
constexpr int unread_may_be_full = 32'768;

struct one_end {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  /// Whether this end is in a state in which the end of the other side would be visible.
  bool awaits_end = false;
};

struct all_ends {
  /// The connections, by their local address and their remote address.
  std::map<std::pair<std::string, std::string>, one_end> connections;
  /// For the address of each listener: whether connections wait to be accepted.
  std::map<std::string, bool> listeners;

  /// Whether all bytes that one end of a connection has sent have arrived at the end `at`.
  bool has_arrived(const std::string& own, const std::string& other, const one_end& at) const {
    if (const auto partner = connections.find({other, own}); partner != connections.end())
      return partner->second.sent <= at.received;
    const auto listener = listeners.find(other);
    return !at.awaits_end || (listener != listeners.end() && listener->second);
  }
};

} // namespace

process_sockets look_at_sockets() {
  process_sockets all;
  all_ends ends;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(each.path().filename().string());
    tcp_info told{};
    socklen_t size = sizeof told;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &size) != 0)
      continue;
    const auto own = address_of(fd, ::getsockname);
    const auto other = address_of(fd, ::getpeername);
    if (told.tcpi_state == state_listen)
      ends.listeners[own] = has_waiting(fd);
    if (other.empty())
      continue;
    int unread = 0;
    ::ioctl(fd, SIOCINQ, &unread);
    const one_end end{told.tcpi_bytes_sent - told.tcpi_bytes_retrans, told.tcpi_bytes_received,
                      told.tcpi_state == state_established && unread < unread_may_be_full};
    all.sent_bytes += end.sent;
    all.received_bytes += end.received;
    all.unread_bytes += static_cast<std::uint64_t>(unread);
    ends.connections[{own, other}] = end;
  }
  for (const auto& [addresses, end] : ends.connections)
    all.all_arrived &= ends.has_arrived(addresses.first, addresses.second, end);
  return all;
}

} // namespace peercache::handoff::testing
