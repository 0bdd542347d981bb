#include "storage/disk/cleared_file.hpp"

#include "common/checksum.hpp"
#include "storage/disk/io/disk_error.hpp"
#include "storage/disk/io/open_folder.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>

namespace peercache::storage {
namespace {

constexpr const char* file_name = "disk.cleared";
constexpr const char* new_file_name = "disk.cleared.new";
constexpr std::string_view magic = "PCCLEAR1";
constexpr std::size_t header_bytes = 16;
constexpr std::size_t file_bytes_max = 4u << 20;

std::uint64_t digest_of(std::string_view bytes) noexcept {
  return checksum_of(std::as_bytes(std::span(bytes)));
}

/// Writes all bytes to an open file and syncs the file. Returns 0 or an errno.
int write_all(int fd, std::string_view bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const auto more = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (more < 0 && errno != EINTR)
      return errno;
    done += more > 0 ? static_cast<std::size_t>(more) : 0;
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

int read_all(int fd, std::string& bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    return errno;
  if (static_cast<std::size_t>(status.st_size) > file_bytes_max)
    return EFBIG;
  bytes.resize(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const auto more =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (more <= 0)
      return more < 0 ? errno : EIO;
    done += static_cast<std::size_t>(more);
  }
  return 0;
}

} // namespace

result<void> write_cleared(const std::string& folder, std::string_view bytes) {
  const owned_fd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at)
    return disk_error(errno, "keep which spaces were cleared in", folder);
  const auto digest = digest_of(bytes);
  std::string content(magic);
  content.append(reinterpret_cast<const char*>(&digest), sizeof digest).append(bytes);
  const owned_fd fd(::openat(at.get(), new_file_name,
                             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  int failed = fd ? write_all(fd.get(), content) : errno;
  if (failed == 0 &&
      (::renameat(at.get(), new_file_name, at.get(), file_name) != 0 || ::fsync(at.get()) != 0))
    failed = errno;
  if (failed != 0)
    return disk_error(failed, "keep which spaces were cleared in", folder);
  return {};
}

result<std::string> read_cleared(const std::string& folder) {
  const auto name = folder + "/" + file_name;
  const owned_fd fd(::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno == ENOENT)
    return std::string{};
  std::string content;
  if (const int failed = fd ? read_all(fd.get(), content) : errno; failed != 0)
    return disk_error(failed, "read", name);
  std::uint64_t digest = 0;
  if (content.size() >= header_bytes)
    std::memcpy(&digest, content.data() + magic.size(), sizeof digest);
  if (content.size() < header_bytes || !content.starts_with(magic) ||
      digest != digest_of(std::string_view(content).substr(header_bytes)))
    return {errc::incompatible,
            "'" + name +
                "' is damaged, or of another version: it says which spaces were cleared, "
                "and without it pages of before would be found again. Empty the folder"};
  return content.substr(header_bytes);
}

} // namespace peercache::storage
