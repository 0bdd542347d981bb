#pragma once

#include "net/socket.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <sys/un.h>

// The names of Unix sockets in a folder that nodes share.
namespace peercache::net {

/// The address of the socket with this path; nothing when the path is too long.
std::optional<sockaddr_un> unix_address(const std::string& path);
unique_fd new_unix_socket();

/// Whether a process may be listening at this name, even one that accepts nobody at the moment, or
/// not this user.
bool is_served(const std::string& path);

/// The right to give and to remove names in a folder, which one process has at a time, for the life
/// of this object. Every process that may list the folder can keep others waiting; so this object
/// waits for a second at most, and goes on without the right, by which it removes nothing. Threads:
/// one.
class socket_names {
public:
  explicit socket_names(std::string folder);

  /// Removes the names that nodes of this user have left whose process is gone, whatever their
  /// port; names of living processes and of other files stay, and so do all in a folder that other
  /// hosts may share. A name under which a socket is made stays until it is ten seconds old: its
  /// process may be about to listen there. Returns how many.
  std::size_t remove_leftovers() const;

private:
  const std::string folder_;
  unique_fd lock_; ///< Nothing: this object has not got the right.
};

} // namespace peercache::net
