#include "net/service_manager.hpp"

#include "net/socket.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace peercache::net {

namespace {

error failed(std::string_view address, const char* what, int number) {
  return {errc::io_failed, fmt::format("cannot {} the service manager at {}: {}", what, address,
                                       std::strerror(number))};
}

} // namespace

const char* service_manager_address() noexcept {
  return std::getenv("NOTIFY_SOCKET");
}

result<void> tell_service_manager(const char* address, std::string_view state,
                                  std::chrono::milliseconds at_most) {
  if (address == nullptr)
    return {};
  const std::string_view name = address;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  // An abstract name has no end byte, a path has one.
  if (name.size() < 2 || name.size() >= sizeof(to.sun_path) || (name[0] != '/' && name[0] != '@'))
    return {
        errc::invalid_argument,
        fmt::format("NOTIFY_SOCKET is '{}': neither a path nor '@' and a name, of at most {} bytes",
                    name, sizeof(to.sun_path) - 1)};
  std::memcpy(to.sun_path, name.data(), name.size());
  const bool abstract = name[0] == '@';
  if (abstract)
    to.sun_path[0] = '\0';
  const auto length = offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1);
  const timeval patience{at_most.count() / 1000, at_most.count() % 1000 * 1000};
  const unique_fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0)
    return failed(name, "open a socket for", errno);
  if (::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&to), static_cast<socklen_t>(length)) < 0)
    return failed(name, "tell", errno);
  return {};
}

} // namespace peercache::net
