#include "storage/pool_leftovers.hpp"

#include "common/checksum.hpp"
#include "storage/pool_header.hpp"
#include "storage/shared_object.hpp"

#include <array>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

/// What the header and the file of a pool's object say about it.
struct parts_of_pool {
  std::uint64_t pages_offset = 0;
  std::uint64_t object_bytes = 0;
  /// Whether the pool was complete; false: its node ended while it made the pool.
  bool finished = false;
  std::uint32_t prefix = 0; ///< The digest of pool.name_prefix; 0: the header does not say it.
};

/// Reads the parts of the pool in `file`; nothing when the file is not a pool of this user, or so
/// young that its header is not written.
std::optional<parts_of_pool> recognize(int file) {
  struct stat status {};
  std::array<std::byte, sizeof(pool_header)> bytes;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      ::pread(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return std::nullopt;
  const auto word_at = [&bytes](std::size_t offset) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + offset, sizeof word);
    return word;
  };
  const auto magic = word_at(offsetof(pool_header, magic));
  if (magic != pool_magic && magic != unfinished_pool_magic)
    return std::nullopt;
  parts_of_pool parts{word_at(offsetof(pool_header, pages_offset)),
                      static_cast<std::uint64_t>(status.st_size), magic == pool_magic};
  std::memcpy(&parts.prefix, bytes.data() + offsetof(pool_header, prefix), sizeof parts.prefix);
  if (parts.pages_offset == 0 || parts.pages_offset > parts.object_bytes)
    parts.pages_offset = parts.object_bytes;
  return parts;
}

bool remove_if_abandoned(const std::string& name, std::uint32_t prefix) {
  auto file = shared_object::open(name, O_RDWR | O_NONBLOCK);
  if (file < 0)
    return false; // The object is gone, or another user's.
  const auto parts = recognize(file);
  const bool abandoned = parts && (parts->prefix == 0 || parts->prefix == prefix) &&
                         shared_object::lock_if_abandoned(file, name);
  if (abandoned) {
    shared_object::unlink(name);
    // Header and slot table lose their memory before the pages: as long as a reader finds a
    // generation, the page's bytes exist.
    shared_object::punch_hole(file, 0, parts->pages_offset);
    shared_object::punch_hole(file, parts->pages_offset, parts->object_bytes);
  }
  ::close(file);
  return abandoned;
}

} // namespace

std::uint32_t digest_of_prefix(std::string_view prefix) {
  const auto digest = static_cast<std::uint32_t>(checksum_of(std::as_bytes(std::span(prefix))));
  return digest != 0 ? digest : 1;
}

std::optional<std::uint64_t> abandoned_pool_bytes(int file, const std::string& name) {
  const auto parts = recognize(file);
  if (!parts || !parts->finished || parts->object_bytes < pool_header_bytes ||
      !shared_object::lock_if_abandoned(file, name))
    return std::nullopt;
  return parts->object_bytes;
}

std::size_t remove_abandoned_pools(const std::string& directory, const std::string& name_start,
                                   const std::string& prefix) {
  const auto digest = digest_of_prefix(prefix);
  std::size_t removed = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    auto file = it->path().filename().string();
    if (file.starts_with(prefix + "-"))
      removed += remove_if_abandoned(std::string{name_start}.append("/").append(file), digest);
  }
  return removed;
}

} // namespace peercache::storage
