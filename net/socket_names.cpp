#include "net/socket_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <linux/magic.h>
#include <poll.h>
#include <string_view>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

namespace peercache::net {

namespace {

constexpr std::chrono::seconds lock_patience{1};

bool all(std::string_view text, int (*is)(int)) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [is](unsigned char each) { return is(each) != 0; });
}

/// Whether a node gives such a name: ADDRESS-PORT.sock, or .PORT.NUMBER until it listens.
bool is_of_a_node(std::string_view name) {
  constexpr std::string_view ending = ".sock";
  if (name.starts_with('.')) {
    const auto dot = name.find('.', 1);
    return dot != std::string_view::npos && all(name.substr(1, dot - 1), std::isdigit) &&
           all(name.substr(dot + 1), std::isxdigit);
  }
  if (!name.ends_with(ending))
    return false;
  name.remove_suffix(ending.size());
  const auto dash = name.rfind('-');
  return dash != std::string_view::npos && dash != 0 && all(name.substr(dash + 1), std::isdigit);
}

/// Whether only this host's processes listen at names in the folder: on a file system that hosts
/// share, nobody can tell whether a name's process lives on another host.
bool is_local_file_system(const std::string& folder) {
  constexpr std::array<std::uint32_t, 5> local{TMPFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
                                               BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
  struct statfs found {};
  return ::statfs(folder.c_str(), &found) == 0 &&
         std::ranges::find(local, static_cast<std::uint32_t>(found.f_type)) != local.end();
}

/// Whether this is a socket, or a link to one, of this process's user.
bool is_own_name(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 &&
         (S_ISSOCK(found.st_mode) || S_ISLNK(found.st_mode)) && found.st_uid == ::geteuid();
}

} // namespace

std::optional<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return std::nullopt;
  std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
  return at;
}

unique_fd new_unix_socket() {
  return unique_fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool is_served(const std::string& path) {
  const auto at = unix_address(path);
  const auto fd = new_unix_socket();
  if (!at || !fd)
    return true;
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*at), sizeof *at) == 0 ||
         (errno != ECONNREFUSED && errno != ENOENT);
}

socket_names::socket_names(std::string folder) : folder_(std::move(folder)) {
  unique_fd opened(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto until = std::chrono::steady_clock::now() + lock_patience;
  while (opened && ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= until)
      return;
    ::poll(nullptr, 0, 5);
  }
  lock_ = std::move(opened);
}

std::size_t socket_names::remove_leftovers() const {
  std::size_t removed = 0;
  std::error_code failed;
  if (!lock_ || !is_local_file_system(folder_))
    return 0;
  for (std::filesystem::directory_iterator it(folder_, failed), end; !failed && it != end;
       it.increment(failed)) {
    const auto path = it->path().string();
    if (is_of_a_node(it->path().filename().string()) && is_own_name(path) && !is_served(path))
      removed += ::unlink(path.c_str()) == 0;
  }
  return removed;
}

} // namespace peercache::net
