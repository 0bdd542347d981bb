#include "storage/shared_object.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage::shared_object {
namespace {

constexpr std::uint64_t owner_byte = 0;

bool is_posix_name(const std::string& name) {
  return name.find('/', 1) == std::string::npos;
}

struct flock exclusive(std::uint64_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock; // The kernel wants l_pid to be zero for open file description locks.
}

} // namespace

error failed(const std::string& what, const std::string& name) {
  auto number = errno;
  auto code = number == ENOMEM || number == ENOSPC ? errc::out_of_memory
              : number == ENOENT                   ? errc::not_found
                                                   : errc::io_failed;
  return {code, what + " " + name + ": " + std::strerror(number)};
}

int open(const std::string& name, int flags) {
  constexpr mode_t owner_only = 0600;
  return is_posix_name(name) ? ::shm_open(name.c_str(), flags | O_CLOEXEC, owner_only)
                             : ::open(name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, owner_only);
}

void unlink(const std::string& name) {
  if (is_posix_name(name))
    ::shm_unlink(name.c_str());
  else
    ::unlink(name.c_str());
}

result<int> create_locked(const std::string& name) {
  auto file = open(name, O_RDWR | O_CREAT | O_EXCL);
  if (file < 0)
    return failed("cannot create", name);
  // Another node that starts at this moment may hold the lock to see whether this object is a
  // leftover. It lets the lock go at once, but may have removed the name: then the object is lost,
  // and the caller has to make another.
  auto lock = exclusive(owner_byte);
  struct stat status {};
  if (::fcntl(file, F_OFD_SETLKW, &lock) != 0 || ::fchmod(file, 0600) != 0 ||
      ::fstat(file, &status) != 0) {
    auto err = failed("cannot lock", name);
    ::close(file);
    unlink(name);
    return err;
  }
  if (status.st_nlink == 0) {
    ::close(file);
    return {errc::refused, name + " was taken for a leftover by another node that started"};
  }
  return file;
}

result<void> share_with(int file, const std::string& name, std::optional<gid_t> group) {
  if (group && ::fchown(file, static_cast<uid_t>(-1), *group) != 0)
    return failed("its user has to be in node.group to share", name);
  return ::fchmod(file, group ? 0660 : 0600) == 0
             ? result<void>()
             : result<void>(failed("cannot set the mode of", name));
}

bool is_shared_with(const struct stat& found, std::optional<gid_t> group) noexcept {
  const auto others = found.st_mode & (S_IRWXG | S_IRWXO);
  return group ? others == (S_IRGRP | S_IWGRP) && found.st_gid == *group : others == 0;
}

bool may_be_mapped(const struct stat& found, std::optional<gid_t> group) noexcept {
  if (group && is_shared_with(found, group))
    return true;
  // Only the object's user can have shared it with a group.
  return found.st_uid == ::geteuid() &&
         (is_shared_with(found, {}) || is_shared_with(found, found.st_gid));
}

bool try_lock(int file, std::uint64_t byte) {
  auto lock = exclusive(byte);
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

bool is_locked_by_another(int file, std::uint64_t byte, std::uint64_t bytes) {
  auto lock = exclusive(byte);
  lock.l_len = static_cast<off_t>(bytes);
  // A call that fails counts as a lock: it must not make a living client look dead.
  return ::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool lock_if_abandoned(int file, const std::string& name) {
  if (!try_lock(file, owner_byte))
    return false;
  // Another node may have taken this object first and removed it, and the name may belong to a
  // newer object: so the object behind the name is compared.
  auto named = open(name, O_RDONLY);
  struct stat locked {};
  struct stat found {};
  auto same = named >= 0 && ::fstat(file, &locked) == 0 && ::fstat(named, &found) == 0 &&
              locked.st_dev == found.st_dev && locked.st_ino == found.st_ino;
  if (named >= 0)
    ::close(named);
  return same;
}

bool rename(const std::string& from, const std::string& to) {
  const auto path_of = [](const std::string& name) {
    return is_posix_name(name) ? std::string(posix_directory).append(name) : name;
  };
  return ::rename(path_of(from).c_str(), path_of(to).c_str()) == 0;
}

void punch_hole(int file, std::uint64_t from, std::uint64_t to) {
  // The result is ignored: where no hole can be made, the memory comes back with the last mapping.
  (void)::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                    static_cast<off_t>(to - from));
}

} // namespace peercache::storage::shared_object
