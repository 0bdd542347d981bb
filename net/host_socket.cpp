#include "net/host_socket.hpp"

#include "common/loopback.hpp"
#include "common/user_group.hpp"
#include "net/socket_names.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace peercache::net {

namespace {

constexpr const char* system_folder = "/run/peercache";
constexpr int waiting_max = 1024;

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

bool is_any(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

std::string name_of(const std::string& host, std::uint16_t port) {
  return fmt::format("{}-{}.sock", is_any(host) ? "any" : host, port);
}

unique_fd connect_to(const std::string& path) {
  const auto at = unix_address(path);
  auto fd = at ? new_unix_socket() : unique_fd();
  if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*at), sizeof *at) == 0)
    return fd;
  return {};
}

/// Whether an interface of this host has the address.
bool is_of_this_host(const std::string& host) {
  if (is_loopback(host))
    return true;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> held(all, &freeifaddrs);
  for (const auto* each = all; each != nullptr; each = each->ifa_next) {
    const auto family = each->ifa_addr == nullptr ? 0 : each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
      continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(each->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
            0 &&
        host == text.data())
      return true;
  }
  return false;
}

error no_host_socket(const std::string& path, const std::string& why) {
  return {errc::io_failed, fmt::format("cannot make the Unix socket for clients of this host at {} "
                                       "(net.socket_folder): {}; name a folder of the node's user",
                                       path, why)};
}

/// Whether a folder that exists may hold sockets: other users may not write to it.
result<void> judge_folder(const std::string& folder, const struct stat& found) {
  if (!S_ISDIR(found.st_mode))
    return no_host_socket(folder, "it is not a folder");
  if ((found.st_mode & (S_IWOTH | S_IWGRP)) != 0 ||
      (found.st_uid != ::geteuid() && found.st_uid != 0))
    return no_host_socket(folder, "other users may write to it");
  return {};
}

/// Makes the folder if it is missing, and opens it to the group. An error when other users may
/// write to it.
result<void> prepare(const std::string& folder, std::optional<gid_t> group) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return no_host_socket(folder, std::strerror(errno));
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0)
    return no_host_socket(folder, std::strerror(errno));
  if (auto fit = judge_folder(folder, found); !fit)
    return fit;
  if (!group || found.st_uid != ::geteuid())
    return {};
  if (::lchown(folder.c_str(), static_cast<uid_t>(-1), *group) != 0 ||
      ::chmod(folder.c_str(), (found.st_mode & 0777) | S_IRGRP | S_IXGRP) != 0)
    return no_host_socket(
        folder, fmt::format("it cannot be opened to node.group: {}", std::strerror(errno)));
  return {};
}

/// Whether this process may make names in the folder; else errno says why not.
bool may_make_in(const std::string& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

/// Whether `prepare` would succeed, as far as that shows without making anything.
/// @param root the folder that stands for `/`
result<void> foresee(const std::string& folder, std::optional<gid_t> group,
                     const std::string& root) {
  const std::filesystem::path at = root + folder;
  struct stat found {};
  if (::lstat(at.c_str(), &found) != 0) {
    if (errno != ENOENT)
      return no_host_socket(folder, std::strerror(errno));
    const auto above = at.has_filename() ? at.parent_path() : at.parent_path().parent_path();
    return may_make_in(above.empty() ? "." : above.string())
               ? result<void>()
               : no_host_socket(folder, std::strerror(errno));
  }
  if (auto fit = judge_folder(folder, found); !fit)
    return fit;
  if (group && found.st_uid == ::geteuid())
    if (const auto given = may_share_with(*group); !given)
      return no_host_socket(folder, "it cannot be opened to node.group: " + given.error().message);
  return {};
}

/// The first folder that is ready for sockets of this process.
result<std::string>
folder_for(const host_socket_options& options,
           const std::function<result<void>(const std::string& folder)>& is_ready) {
  auto folders = host_socket_folders(options.folder);
  // Clients of other users look in no folder that is named after the node's user.
  if (options.group && options.folder.empty())
    folders = {system_folder};
  std::string faults;
  for (const auto& folder : folders) {
    const auto ready = is_ready(folder);
    if (ready)
      return folder;
    faults += (faults.empty() ? "" : "; ") + ready.error().message;
  }
  return error{errc::io_failed, faults};
}

/// The name that a socket has until its mode is right and it listens.
std::string first_name_of(std::uint16_t port, std::uint32_t number) {
  return fmt::format(".{}.{:08x}", port, number);
}

bool names_fit(const std::string& folder, const host_socket_options& options) {
  const auto name = name_of(options.bind, options.port);
  const auto first = first_name_of(options.port, 0);
  return unix_address(folder + '/' + (name.size() > first.size() ? name : first)).has_value();
}

error path_too_long(const std::string& path) {
  return no_host_socket(path, "the path is longer than a socket's may be");
}

/// Whether this user may trust the sockets in this folder: other users cannot write to it, and it
/// was chosen, is the system's, or belongs to this user or root.
bool is_believed(const std::string& folder, bool chosen) {
  struct stat found {};
  return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         (found.st_mode & (S_IWOTH | S_IWGRP)) == 0 &&
         // Only root makes folders in /run.
         (chosen || folder == system_folder || found.st_uid == ::geteuid() || found.st_uid == 0);
}

/// The groups of the process at the other end of a socket; `first` is its primary group.
std::vector<gid_t> groups_of(int fd, gid_t first) {
  std::vector<gid_t> groups(64);
  for (;;) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const bool done = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) == 0;
    const bool more = !done && errno == ERANGE && bytes > groups.size() * sizeof(gid_t);
    groups.resize(done || more ? bytes / sizeof(gid_t) : 0);
    if (!more)
      break;
  }
  groups.push_back(first);
  return groups;
}

} // namespace

std::vector<std::string> host_socket_folders(const std::string& chosen) {
  if (!chosen.empty())
    return {chosen};
  std::vector<std::string> folders{system_folder};
  const auto usual = fmt::format("/run/user/{}/peercache", ::geteuid());
  if (const auto runtime = text_of("XDG_RUNTIME_DIR"); !runtime.empty())
    folders.push_back(runtime + "/peercache");
  if (folders.back() != usual)
    folders.push_back(usual); // For services of the user, which lack XDG_RUNTIME_DIR.
  folders.push_back(fmt::format("/tmp/peercache-{}", ::geteuid()));
  return folders;
}

result<void> host_users::judge(int fd) const {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return {errc::refused,
            fmt::format("the kernel does not say whose it is: {}", std::strerror(errno))};
  if (who.uid == 0 || who.uid == ::geteuid())
    return {};
  if (group_) {
    const auto groups = groups_of(fd, who.gid);
    if (std::find(groups.begin(), groups.end(), *group_) != groups.end())
      return {};
  }
  return {errc::refused,
          fmt::format("it is of the user {}, and the node is of the user {} and serves {}", who.uid,
                      ::geteuid(),
                      group_ ? fmt::format("besides root the members of the group {}", *group_)
                             : std::string("nobody else but root (node.group)"))};
}

/// A name in the file system, removed with this object if it still names the same file.
class host_socket::name {
public:
  explicit name(std::string path) : path_(std::move(path)) { ::lstat(path_.c_str(), &made_); }
  ~name() {
    struct stat found {};
    if (::lstat(path_.c_str(), &found) == 0 && found.st_dev == made_.st_dev &&
        found.st_ino == made_.st_ino)
      ::unlink(path_.c_str());
  }
  name(const name&) = delete;
  name& operator=(const name&) = delete;

private:
  const std::string path_;
  struct stat made_ {};
};

/// Gives the file `from` the name `to`, unless a living node has it.
result<void> host_socket::claim(const std::string& from, const std::string& to) {
  if (is_served(to)) {
    ::unlink(from.c_str());
    return no_host_socket(to,
                          "another node serves there, in another network namespace; each needs a "
                          "folder of its own");
  }
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int why = errno;
    ::unlink(from.c_str());
    return no_host_socket(to, std::strerror(why));
  }
  names_.push_back(std::make_shared<const name>(to));
  return {};
}

result<host_socket> host_socket::listen(const host_socket_options& options) {
  const auto folder = folder_for(
      options, [&options](const std::string& each) { return prepare(each, options.group); });
  if (!folder)
    return folder.error();
  const socket_names names(*folder);
  const auto own_name = name_of(options.bind, options.port);
  const auto path = *folder + '/' + own_name;
  const auto fresh = *folder + '/' + first_name_of(options.port, std::random_device{}());
  const auto at = unix_address(fresh);
  if (!at || !names_fit(*folder, options))
    return path_too_long(path);
  host_socket made(new_unix_socket(), path);
  const int fd = made.listening_.get();
  if (fd < 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&*at), sizeof *at) != 0)
    return no_host_socket(path, std::strerror(errno));
  if ((options.group && ::lchown(fresh.c_str(), static_cast<uid_t>(-1), *options.group) != 0) ||
      ::chmod(fresh.c_str(), options.group ? 0660 : 0600) != 0 || ::listen(fd, waiting_max) != 0) {
    const int why = errno;
    ::unlink(fresh.c_str());
    return no_host_socket(path, std::strerror(why));
  }
  if (auto done = made.claim(fresh, path); !done)
    return done.error();
  const auto other_name = name_of(options.advertised, options.port);
  if (other_name != own_name) {
    if (::symlink(own_name.c_str(), fresh.c_str()) != 0)
      return no_host_socket(*folder + '/' + other_name, std::strerror(errno));
    if (auto done = made.claim(fresh, *folder + '/' + other_name); !done)
      return done.error();
  }
  names.remove_leftovers();
  return made;
}

result<std::string> host_socket::examine(const host_socket_options& options,
                                         const std::string& root) {
  const auto folder = folder_for(
      options, [&](const std::string& each) { return foresee(each, options.group, root); });
  if (!folder)
    return folder.error();
  const auto path = *folder + '/' + name_of(options.bind, options.port);
  if (!names_fit(*folder, options))
    return path_too_long(path);
  // A folder that passes `foresee` may belong to root, and this user may not write to it.
  if (!may_make_in(root + *folder) && errno != ENOENT)
    return no_host_socket(path, std::strerror(errno));
  if (options.group)
    if (const auto given = may_share_with(*options.group); !given)
      return no_host_socket(path, given.error().message);
  return path;
}

host_sockets::host_sockets() {
  const auto chosen = text_of(host_socket_variable);
  is_chosen_ = !chosen.empty();
  folders_ = host_socket_folders(chosen);
}

unique_fd host_sockets::connect(const std::string& host, std::uint16_t port) const {
  const bool is_here = is_of_this_host(host);
  if (!is_chosen_ && !is_here)
    return {};
  for (const auto& folder : folders_) {
    if (!is_believed(folder, is_chosen_))
      continue;
    const auto exact = folder + '/' + name_of(host, port);
    if (auto found = connect_to(exact))
      return found;
    // A name without a listener was left by a dead node of this address. A node that listens on all
    // addresses is then another node, whose socket is not tried.
    struct stat left {};
    if (is_here && ::lstat(exact.c_str(), &left) != 0)
      if (auto found = connect_to(folder + '/' + name_of("::", port)))
        return found;
  }
  return {};
}

} // namespace peercache::net
