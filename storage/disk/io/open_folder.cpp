#include "storage/disk/io/open_folder.hpp"

#include "storage/disk/io/disk_error.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

constexpr const char* trial_name = "disk.trial";

/// Writes a block to a file that is opened with these flags and reads it back. Returns 0 or an
/// errno.
int try_out(int folder, int flags) {
  const owned_fd fd(::openat(folder, trial_name,
                             O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
  if (!fd)
    return errno;
  ::unlinkat(folder, trial_name, 0);
  struct alignas(disk_block_bytes) block {
    std::byte bytes[disk_block_bytes];
  };
  const auto memory = std::make_unique<block>();
  std::memset(memory->bytes, 0x5a, disk_block_bytes);
  for (const bool writes : {true, false}) {
    const auto moved = writes ? ::pwrite(fd.get(), memory->bytes, disk_block_bytes, 0)
                              : ::pread(fd.get(), memory->bytes, disk_block_bytes, 0);
    if (moved < 0)
      return errno;
    if (moved != disk_block_bytes)
      return EIO;
  }
  return 0;
}

} // namespace

result<owned_fd> make_folders(const std::string& folder) {
  namespace fs = std::filesystem;
  fs::path at;
  for (const auto& part : fs::path(folder)) {
    const auto parent = at.empty() ? fs::path(".") : at;
    at /= part;
    if (::mkdir(at.c_str(), 0700) == 0) {
      const owned_fd fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!fd || ::fsync(fd.get()) != 0)
        return disk_error(errno, "sync the folder", parent.string());
    } else if (const int why = errno; why != EEXIST && ::access(at.c_str(), F_OK) != 0) {
      return disk_error(why, "make the folder", at.string());
    }
  }
  owned_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd)
    return disk_error(errno, "open the folder", folder);
  return fd;
}

result<opened_folder> open_folder(const std::string& folder) {
  auto made = make_folders(folder);
  if (!made)
    return made.error();
  auto fd = std::move(*made);
  bool direct = true;
  int refused = try_out(fd.get(), O_DIRECT);
  if (refused == EINVAL || refused == EOPNOTSUPP) {
    direct = false;
    refused = try_out(fd.get(), 0);
  }
  if (refused != 0 && refused != ENOSPC && refused != EDQUOT)
    return disk_error(refused, "write a file to the folder", folder);
  return opened_folder{std::move(fd), direct};
}

} // namespace peercache::storage
