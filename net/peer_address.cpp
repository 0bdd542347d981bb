#include "net/peer_address.hpp"

#include <array>
#include <netdb.h>
#include <sys/socket.h>

namespace peercache::net {

std::string address_of_peer(int fd) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  std::array<char, NI_MAXHOST> text{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&at), size, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "somebody who is gone";
  return text.data();
}

} // namespace peercache::net
