#include "storage/disk/folder_claim.hpp"

#include "storage/disk/io/disk_error.hpp"
#include "storage/disk/io/open_folder.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>

namespace peercache::storage {
namespace {

constexpr const char* lock_name = "disk.lock";
constexpr const char* owner_name = "disk.owner";
constexpr const char* new_owner_name = "disk.owner.new";
/// What the file "disk.owner" says of a folder's format; the number grows with every change of what
/// the files of a folder mean.
constexpr std::string_view folder_format = "peercache disk 1";

/// Reads the text of an open file, at most 4 KiB of it; a longer file was not written by a node.
/// Returns 0 or an errno.
int read_text(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const auto bytes = ::pread(fd, buffer.data(), buffer.size(), 0);
  if (bytes < 0)
    return errno;
  text.assign(buffer.data(), static_cast<std::size_t>(bytes));
  return 0;
}

int write_text(int fd, std::string_view text) {
  if (::ftruncate(fd, 0) != 0)
    return errno;
  const auto bytes = ::pwrite(fd, text.data(), text.size(), 0);
  if (bytes < 0)
    return errno;
  return static_cast<std::size_t>(bytes) == text.size() ? 0 : ENOSPC;
}

std::string text_of(const folder_owner& owner) {
  return std::string(folder_format) + "\ncluster=" + owner.cluster + "\nnode=" + owner.node + "\n";
}

std::optional<std::string_view> take_line(std::string_view& text, std::string_view prefix) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  if (end == std::string_view::npos || !line.starts_with(prefix))
    return std::nullopt;
  text.remove_prefix(end + 1);
  return line.substr(prefix.size());
}

std::optional<folder_owner> owner_in(std::string_view text) {
  const auto rest_of_first = take_line(text, folder_format);
  const auto cluster = take_line(text, "cluster=");
  const auto node = take_line(text, "node=");
  if (!rest_of_first || !rest_of_first->empty() || !cluster || !node || !text.empty())
    return std::nullopt;
  return folder_owner{std::string(*cluster), std::string(*node)};
}

/// `look` holds the lock for a moment, and a killed process holds it until the kernel has ended
/// that process: so `take` waits this long for the lock before it is refused.
constexpr std::chrono::milliseconds lock_wait{1000};
constexpr std::chrono::milliseconds lock_pause{5};

/// Takes the lock, LOCK_SH or LOCK_EX, within the time. Errors: `refused`, with the process that
/// holds it.
result<void> lock_file(int file, const std::string& path, int how,
                       std::chrono::milliseconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (::flock(file, how | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return disk_error(errno, "lock", path);
    if (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(lock_pause);
      continue;
    }
    std::string holder;
    if (read_text(file, holder) != 0 || holder.empty())
      holder = "another process";
    return {errc::refused,
            fmt::format("the disk tier's folder '{}' is in use by {}. Each node needs a folder of "
                        "its own: set disk.path",
                        path, holder)};
  }
  return {};
}

result<owned_fd> lock(int folder, const std::string& path, const folder_owner& owner) {
  owned_fd fd(::openat(folder, lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd)
    return disk_error(errno, "open the lock in", path);
  if (auto locked = lock_file(fd.get(), path, LOCK_EX, lock_wait); !locked)
    return locked.error();
  // The lock file's text names this process to one that is refused. The result is ignored: a node
  // also starts on a full disk, which cannot hold the text.
  write_text(fd.get(), "node '" + owner.node + "', process " + std::to_string(::getpid()));
  return fd;
}

result<void> write_owner(int folder, const std::string& path, const folder_owner& owner) {
  const owned_fd fd(
      ::openat(folder, new_owner_name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd)
    return disk_error(errno, "write the owner of", path);
  int failed = write_text(fd.get(), text_of(owner));
  if (failed == 0 &&
      (::fsync(fd.get()) != 0 || ::renameat(folder, new_owner_name, folder, owner_name) != 0 ||
       ::fsync(folder) != 0))
    failed = errno;
  if (failed != 0)
    return disk_error(failed, "write the owner of", path);
  return {};
}

/// Compares the folder's owner with `owner`. True: they are equal; false: the folder has no owner
/// yet.
result<bool> is_owner(int folder, const std::string& path, const folder_owner& owner) {
  const owned_fd fd(::openat(folder, owner_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd)
    return errno == ENOENT ? result<bool>(false)
                           : result<bool>(disk_error(errno, "read the owner of", path));
  std::string text;
  if (const int failed = read_text(fd.get(), text); failed != 0)
    return disk_error(failed, "read the owner of", path);
  const auto found = owner_in(text);
  const std::string remedy =
      ". Set disk.path to another folder, or empty this one if nobody needs its pages";
  if (!found)
    return {errc::incompatible, "the folder '" + path + "' was written by another version of " +
                                    "PeerCache, or its file '" + owner_name + "' is damaged" +
                                    remedy};
  if (*found != owner)
    return {errc::incompatible, "the folder '" + path + "' holds the pages of node '" +
                                    found->node + "' of cluster '" + found->cluster +
                                    "', and this is node '" + owner.node + "' of cluster '" +
                                    owner.cluster + "'" + remedy};
  return true;
}

/// Finds out whether a process holds the lock. Shares it for an instant, in which `take` waits.
result<void> look_at_lock(int folder, const std::string& path) {
  const owned_fd file(::openat(folder, lock_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file)
    return errno == ENOENT ? result<void>() : disk_error(errno, "open the lock in", path);
  return lock_file(file.get(), path, LOCK_SH, std::chrono::milliseconds(0));
}

/// Checks that the folder, which is to be a tier's, is not a link. Errors: `incompatible`.
result<void> check_no_link(const std::string& folder) {
  std::error_code none;
  if (std::filesystem::is_symlink(folder, none))
    return {errc::incompatible,
            "the folder '" + folder +
                "' is a link: whoever can change it says "
                "where pages are kept. Put a folder in its place; disk.path itself "
                "may be a link"};
  return {};
}

} // namespace

result<folder_claim> folder_claim::take(const std::string& folder, const folder_owner& owner) {
  if ((owner.cluster + owner.node).find('\n') != std::string::npos)
    return {errc::invalid_argument, "a cluster's or node's name has a line break"};
  if (auto fit = check_no_link(folder); !fit)
    return fit.error();
  auto opened = make_folders(folder);
  if (!opened)
    return opened.error();
  auto held = lock(opened->get(), folder, owner);
  if (!held)
    return held.error();
  auto ours = is_owner(opened->get(), folder, owner);
  if (!ours)
    return ours.error();
  if (!*ours)
    if (auto written = write_owner(opened->get(), folder, owner); !written)
      return written.error();
  return folder_claim(std::move(*held));
}

result<void> folder_claim::look(const std::string& folder, const folder_owner& owner) {
  if (auto fit = check_no_link(folder); !fit)
    return fit.error();
  const owned_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened)
    return errno == ENOENT ? result<void>() : disk_error(errno, "open", folder);
  const auto ours = is_owner(opened.get(), folder, owner);
  if (auto free = look_at_lock(opened.get(), folder); !free)
    return free.error();
  return ours ? result<void>() : ours.error();
}

bool folder_claim::is_owned_by(const std::string& folder, const folder_owner& owner) {
  const owned_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened)
    return false;
  const auto ours = is_owner(opened.get(), folder, owner);
  return ours && *ours;
}

} // namespace peercache::storage
