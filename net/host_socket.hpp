#pragma once

#include "common/result.hpp"
#include "net/socket.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

// The Unix socket at which a node serves processes of its own host. The socket is named after the
// node's address (`ADDRESS-PORT.sock`, or `any-PORT.sock` of a node that listens on all addresses),
// so a client that was given the address finds the socket.
namespace peercache::net {

/// The environment variable by which clients and nodes take the folder of their sockets.
inline constexpr const char* host_socket_variable = "PEERCACHE_NET_SOCKET_FOLDER";

/// The folders that may hold sockets, in the order in which they are tried: only `chosen` if it is
/// not empty; otherwise /run/peercache, `peercache` in $XDG_RUNTIME_DIR and in /run/user/UID,
/// /tmp/peercache-UID.
std::vector<std::string> host_socket_folders(const std::string& chosen);

/// The users whose processes a node serves at its socket.
class host_users {
public:
  /// @param group a group whose members are served, besides this process's user and root
  explicit host_users(std::optional<gid_t> group) : group_(group) {}

  /// Whether the process at the other end of `fd` may be served, judged by the user and the groups
  /// that the kernel tells. An error says who asked and who may.
  result<void> judge(int fd) const;

private:
  std::optional<gid_t> group_;
};

struct host_socket_options {
  std::string folder;     ///< Where the socket is made; empty: see `host_socket_folders`.
  std::string bind;       ///< The numeric address that the node's ports listen on.
  std::string advertised; ///< The numeric address that others know the node by.
  std::uint16_t port = 0; ///< The node's control port.
  std::optional<gid_t> group;
};

/// A node's listening Unix socket, and its names in the file system. Its mode is 0600, or 0660 with
/// a group. Its folder belongs to the node's user or to root, nobody else may write to it, and it
/// is made if it is missing (0700, or 0750 with a group). With a group, and no folder chosen, the
/// folder is /run/peercache.
///
/// Threads: one. Ownership: the names are removed with this object, unless another node has taken
/// them; `take` hands the socket to the caller. Errors: other users may write to the folder, or a
/// living node has a socket of that name. Names that dead nodes of this user have left are removed.
class host_socket {
public:
  static result<host_socket> listen(const host_socket_options& options);
  /// Returns the path that the socket of `listen` would have, or why that would fail, and makes
  /// nothing. Whether another node serves there is not looked at. @param root the folder that
  /// stands for `/`, without a `/` at its end
  static result<std::string> examine(const host_socket_options& options,
                                     const std::string& root = {});
  host_socket(host_socket&&) noexcept = default;
  host_socket& operator=(host_socket&&) noexcept = default;

  unique_fd take() noexcept { return std::move(listening_); }
  const std::string& path() const noexcept { return path_; }

private:
  class name;
  host_socket(unique_fd listening, std::string path) noexcept
      : listening_(std::move(listening)), path_(std::move(path)) {}
  result<void> claim(const std::string& from, const std::string& to);

  unique_fd listening_;
  std::string path_;
  std::vector<std::shared_ptr<const name>> names_;
};

/// Where a client looks for the sockets of this host's nodes. Made on a thread of the program,
/// since it reads environment variables, which the program may change at any time.
///
/// Threads: any; a value that does not change.
class host_sockets {
public:
  /// Takes only the folder that `host_socket_variable` names; if that is unset or empty, the usual
  /// folders of `host_socket_folders`, which reads XDG_RUNTIME_DIR too.
  host_sockets();

  /// Connects to the socket of the node that is known by this numeric address, if the node runs on
  /// this host. Does not block. Returns no descriptor when there is no socket that this process may
  /// use. An address of another host is looked for only in a folder that `host_socket_variable`
  /// names, since a container may share its node's folder and not its network.
  unique_fd connect(const std::string& host, std::uint16_t port) const;

private:
  bool is_chosen_ = false; ///< Whether the variable names the folder.
  std::vector<std::string> folders_;
};

} // namespace peercache::net
