#include "net/socket_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
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
/// A socket gets its first name in `bind`, and is served only from `listen` on. A node that has not
/// got the right to the folder's names may be between the two, so first names are not leftovers
/// before they are this old.
constexpr std::chrono::seconds first_name_age{10};

bool all(std::string_view text, int (*is)(int)) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [is](unsigned char each) { return is(each) != 0; });
}

/// Whether a node gives such a name until it listens: .PORT.NUMBER.
bool is_first_name(std::string_view name) {
  const auto dot = name.find('.', 1);
  return name.starts_with('.') && dot != std::string_view::npos &&
         all(name.substr(1, dot - 1), std::isdigit) && all(name.substr(dot + 1), std::isxdigit);
}

/// Whether a node gives such a name: ADDRESS-PORT.sock, or the first name of its socket.
bool is_of_a_node(std::string_view name) {
  constexpr std::string_view ending = ".sock";
  if (is_first_name(name))
    return true;
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

/// Whether this is a socket, or a link to one, of this process's user, and no first name that a
/// node may be about to listen at.
bool is_own_name(const std::string& path, bool is_first) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || found.st_uid != ::geteuid() ||
      (!S_ISSOCK(found.st_mode) && !S_ISLNK(found.st_mode)))
    return false;
  // The clock may have been set meanwhile, so a name from the future is as old as it is early.
  const std::chrono::seconds age(std::time(nullptr) - found.st_mtim.tv_sec);
  return !is_first || std::chrono::abs(age) >= first_name_age;
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
    const auto name = it->path().filename().string();
    if (is_of_a_node(name) && is_own_name(path, is_first_name(name)) && !is_served(path))
      removed += ::unlink(path.c_str()) == 0;
  }
  return removed;
}

} // namespace peercache::net
