#include "storage/disk/io/folder_disk_io.hpp"

#include "common/assert.hpp"
#include "storage/disk/io/disk_error.hpp"
#include "storage/disk/io/disk_name.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

owned_fd walk_by_parts(int from, std::string_view folder) {
  owned_fd at(::openat(from, ".", folder_flags));
  while (at && !folder.empty()) {
    const auto slash = std::min(folder.find('/'), folder.size());
    const std::string part(folder.substr(0, slash));
    folder.remove_prefix(std::min(slash + 1, folder.size()));
    at = owned_fd(::openat(at.get(), part.c_str(), folder_flags));
  }
  return at;
}

/// Opens the folder `folder` below `from` without following links. No descriptor: errno says why.
owned_fd walk(int from, std::string_view folder) {
  const std::string name(folder.empty() ? "." : folder);
  open_how how{};
  how.flags = folder_flags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  // openat2 walks all parts of the name in one call; a start with many files spends much of its
  // time on such walks.
  owned_fd at(static_cast<int>(::syscall(SYS_openat2, from, name.c_str(), &how, sizeof how)));
  const bool forbidden = !at && (errno == ENOSYS || errno == EPERM);
  return forbidden ? walk_by_parts(from, folder) : std::move(at);
}

template <class Call>
auto retried(Call call) {
  auto answer = call();
  while (answer < 0 && errno == EINTR)
    answer = call();
  return answer;
}

/// Reserves the file's room on the device: without reserved room, the device may be full when a
/// part of the file is written. Returns 0 or an errno.
int reserve(int fd, std::uint64_t bytes) {
  if (bytes == 0)
    return 0;
  const auto length = static_cast<off_t>(bytes);
  if (retried([&] { return ::fallocate(fd, 0, 0, length); }) == 0)
    return 0;
  if (errno == EOPNOTSUPP && retried([&] { return ::ftruncate(fd, length); }) == 0)
    // A file system that cannot reserve gives the file its length only; a later write fails when
    // the device is full.
    return 0;
  return errno;
}

struct folder_name {
  std::string name;
  ino_t inode = 0;
};

/// Appends all names in a folder, sorted by inode, which is about the order on the disk (a folder
/// lists its names in the order of a hash). False: errno says why.
bool names_in(int folder, std::vector<folder_name>& names) {
  owned_fd own(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (!own)
    return false;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(own.get()), &::closedir);
  if (!entries)
    return false;
  own.release(); // `closedir` closes the descriptor.
  errno = 0;
  while (const auto* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..")
      names.push_back({std::string(name), entry->d_ino});
  }
  if (errno != 0)
    return false;
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return a.inode < b.inode; });
  return true;
}

owned_fd open_to_read(int folder, const std::string& file) {
  return owned_fd(retried([&] {
    return ::openat(folder, file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  }));
}

/// Reads until `into` is full or the file ends; returns how many bytes were read, or -1 and errno.
ssize_t read_all(int fd, std::uint64_t offset_bytes, std::span<std::byte> into) {
  constexpr std::size_t small_bytes = 64u << 10;
  // A small read is of a header: what lies behind it is not wanted, so there is no readahead.
  if (into.size() <= small_bytes)
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  std::size_t done = 0;
  while (done < into.size()) {
    const auto moved = retried([&] {
      return ::pread(fd, into.data() + done, into.size() - done,
                     static_cast<off_t>(offset_bytes + done));
    });
    if (moved < 0)
      return -1;
    if (moved == 0)
      break;
    done += static_cast<std::size_t>(moved);
  }
  return static_cast<ssize_t>(done);
}

} // namespace

folder_disk_io::~folder_disk_io() = default;

folder_disk_io::place folder_disk_io::walk_to(const std::string& name) const {
  place found;
  found.last = last_part_of(name);
  const auto parent = folder_of(name);
  if (parent.empty()) {
    found.folder = folder_.fd.get();
    return found;
  }
  found.walked = walk(folder_.fd.get(), parent);
  found.folder = found.walked.get();
  return found;
}

folder_disk_io::place folder_disk_io::place_of(const std::string& name) const {
  const auto known = open_folders_.find(folder_of(name));
  if (known == open_folders_.end())
    return walk_to(name);
  place found;
  found.last = last_part_of(name);
  found.folder = fd_of(known->second);
  return found;
}

owned_fd folder_disk_io::open_at(int folder, const std::string& file, int flags) const {
  // O_NONBLOCK matters only for the open: a pipe in a file's place must not block the owner.
  flags |= O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (folder_.direct ? O_DIRECT : 0);
  owned_fd fd(retried([&] { return ::openat(folder, file.c_str(), flags, 0600); }));
  if (fd) // Clears O_NONBLOCK, because io_uring does not wait for a file that has it.
    ::fcntl(fd.get(), F_SETFL, flags & O_DIRECT);
  return fd;
}

result<disk_file> folder_disk_io::keep_open(owned_fd fd, bool folder) {
  const int number = fd.get();
  const auto free =
      std::find_if(open_.begin(), open_.end(), [](const open_file& one) { return !one.fd; });
  const disk_file handle{static_cast<std::uint32_t>(free - open_.begin())};
  if (free == open_.end())
    open_.push_back({std::move(fd), folder});
  else
    *free = {std::move(fd), folder};
  on_open(handle, number);
  return handle;
}

result<disk_file> folder_disk_io::create(const std::string& file, std::uint64_t bytes) {
  if (auto inside = check_disk_name(file); !inside)
    return inside.error();
  const auto where = place_of(file);
  if (!where)
    return disk_error(errno, "create", file);
  auto fd = open_at(where.folder, where.last, O_RDWR | O_CREAT | O_EXCL);
  if (!fd)
    return disk_error(errno, "create", file);
  if (const int failed = reserve(fd.get(), bytes); failed != 0) {
    ::unlinkat(where.folder, where.last.c_str(), 0);
    return disk_error(failed, "reserve " + std::to_string(bytes) + " bytes for", file);
  }
  return keep_open(std::move(fd));
}

result<disk_file> folder_disk_io::open(const std::string& file) {
  if (auto inside = check_disk_name(file); !inside)
    return inside.error();
  const auto where = place_of(file);
  if (!where)
    return disk_error(errno, "open", file);
  auto fd = open_at(where.folder, where.last, O_RDWR);
  if (!fd && errno == EROFS) // A read-only file system still lets its files be read.
    fd = open_at(where.folder, where.last, O_RDONLY);
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0)
    return disk_error(errno, "open", file);
  if (!S_ISREG(about.st_mode))
    return disk_error(EINVAL, "open", file);
  return keep_open(std::move(fd));
}

result<disk_file> folder_disk_io::open_folder(const std::string& folder) {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside.error();
  auto fd = walk(folder_.fd.get(), folder);
  if (!fd)
    return disk_error(errno, "open the folder", folder);
  auto kept = keep_open(std::move(fd), true);
  open_folders_.insert_or_assign(folder, *kept);
  return kept;
}

void folder_disk_io::close(disk_file file) {
  PEERCACHE_ASSERT(fd_of(file) >= 0 && open_[file.value].requests == 0);
  on_close(file);
  if (open_[file.value].folder)
    std::erase_if(open_folders_, [&](const auto& known) { return known.second == file; });
  open_[file.value].fd = owned_fd();
}

int folder_disk_io::fd_of(disk_file file) const {
  PEERCACHE_ASSERT(file.value < open_.size() && open_[file.value].fd);
  return open_[file.value].fd.get();
}

result<void> folder_disk_io::truncate(disk_file file, std::uint64_t bytes) {
  const int fd = fd_of(file);
  if (retried([&] { return ::ftruncate(fd, static_cast<off_t>(bytes)); }) != 0)
    return disk_error(errno, "truncate", "file " + std::to_string(file.value));
  return {};
}

result<std::uint64_t> folder_disk_io::bytes_of(disk_file file) {
  struct stat about {};
  if (::fstat(fd_of(file), &about) != 0)
    return disk_error(errno, "measure", "file " + std::to_string(file.value));
  return static_cast<std::uint64_t>(about.st_size);
}

result<void> folder_disk_io::rename(const std::string& from, const std::string& to) {
  for (const auto* name : {&from, &to})
    if (auto inside = check_disk_name(*name); !inside)
      return inside;
  const auto old_place = place_of(from);
  if (!old_place)
    return disk_error(errno, "rename", from);
  const auto new_place = place_of(to);
  if (!new_place || ::renameat(old_place.folder, old_place.last.c_str(), new_place.folder,
                               new_place.last.c_str()) != 0)
    return disk_error(errno, "rename", from + "' to '" + to);
  return {};
}

result<void> folder_disk_io::remove(const std::string& file) {
  if (auto inside = check_disk_name(file); !inside)
    return inside;
  const auto where = place_of(file);
  if (!where || ::unlinkat(where.folder, where.last.c_str(), 0) != 0)
    return disk_error(errno, "remove", file);
  return {};
}

result<void> folder_disk_io::make_folder(const std::string& folder) {
  if (auto inside = check_disk_name(folder); !inside)
    return inside;
  const auto where = place_of(folder);
  if (!where)
    return disk_error(errno, "make the folder", folder);
  if (::mkdirat(where.folder, where.last.c_str(), 0700) == 0)
    return {};
  int failed = errno;
  struct stat about {};
  if (failed == EEXIST &&
      ::fstatat(where.folder, where.last.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(about.st_mode))
      return {};
    failed = ENOTDIR;
  }
  return disk_error(failed, "make the folder", folder);
}

result<void> folder_disk_io::sync_folder(const std::string& folder) {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside;
  const auto fd = walk(folder_.fd.get(), folder);
  if (!fd || retried([&] { return ::fsync(fd.get()); }) != 0)
    return disk_error(errno, "sync the folder", folder);
  return {};
}

result<std::vector<disk_folder_entry>> folder_disk_io::list(const std::string& folder) const {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside.error();
  auto fd = walk(folder_.fd.get(), folder);
  if (!fd)
    return disk_error(errno, "list", folder);
  std::vector<folder_name> names;
  if (!names_in(fd.get(), names))
    return disk_error(errno, "list", folder);
  std::vector<disk_folder_entry> listed;
  for (auto& [name, inode] : names) {
    struct stat about {};
    if (::fstatat(fd.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
      continue; // The file was removed after its name was listed.
    if (S_ISDIR(about.st_mode))
      listed.push_back({std::move(name), 0, true});
    else if (S_ISREG(about.st_mode))
      listed.push_back({std::move(name), static_cast<std::uint64_t>(about.st_size), false});
  }
  return listed;
}

result<void>
folder_disk_io::read_heads(const std::string& folder, std::size_t head_bytes,
                           const std::function<void(const disk_file_head&)>& visit) const {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside.error();
  auto fd = walk(folder_.fd.get(), folder);
  std::vector<folder_name> names;
  if (!fd || !names_in(fd.get(), names))
    return disk_error(errno, "list", folder);
  std::vector<std::byte> head(head_bytes);
  double visited = 0;
  for (auto& [name, inode] : names) {
    ++visited;
    const auto file = open_to_read(fd.get(), name);
    struct stat about {};
    if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode))
      continue;
    const auto got = std::max<ssize_t>(read_all(file.get(), 0, head), 0);
    visit({std::move(name), static_cast<std::uint64_t>(about.st_size),
           std::span(head).first(static_cast<std::size_t>(got)),
           visited / static_cast<double>(names.size())});
  }
  return {};
}

result<disk_space> folder_disk_io::space() const {
  struct statvfs about {};
  if (::fstatvfs(folder_.fd.get(), &about) != 0)
    return disk_error(errno, "ask for the free space of", "");
  return disk_space{about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize};
}

result<std::size_t> folder_disk_io::read_now(const std::string& file, std::uint64_t offset_bytes,
                                             std::span<std::byte> into) const {
  if (auto inside = check_disk_name(file); !inside)
    return inside.error();
  const auto where = walk_to(file);
  if (!where)
    return disk_error(errno, "read", file);
  const auto fd = open_to_read(where.folder, where.last);
  const auto got = fd ? read_all(fd.get(), offset_bytes, into) : -1;
  if (got < 0)
    return disk_error(errno, "read", file);
  return static_cast<std::size_t>(got);
}

void folder_disk_io::check(const disk_request& request) const {
  PEERCACHE_ASSERT(fd_of(request.file) >= 0);
  PEERCACHE_ASSERT(open_[request.file.value].folder ==
                   (request.what == disk_request::kind::sync_folder));
  PEERCACHE_ASSERT(in_whole_blocks(request));
}

} // namespace peercache::storage
