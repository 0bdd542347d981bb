#include "directory/shard_object.hpp"

#include "storage/shared_object.hpp"

#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace peercache::directory {

namespace shared_object = storage::shared_object;

namespace {

constexpr std::string_view suffix = ".shard";

/// Removes the object unless its node lives, or is just making it.
bool remove_if_abandoned(const std::string& name) {
  const auto file = shared_object::open(name, O_RDWR | O_NONBLOCK);
  if (file < 0)
    return false;
  struct stat found {};
  const bool abandoned = ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) &&
                         found.st_uid == ::geteuid() && found.st_size > 0 &&
                         shared_object::lock_if_abandoned(file, name);
  if (abandoned) {
    shared_object::unlink(name);
    // Whoever still maps the object finds no header, and so no shard. The memory comes back with
    // the last mapping; holes would free it, but a read of a hole takes memory anew.
    const unit_words none{};
    [[maybe_unused]] const auto written = ::pwrite(file, none.data(), sizeof none, 0);
  }
  ::close(file);
  return abandoned;
}

} // namespace

std::string shard_object::name_of(const std::string& pool_name) {
  // A pool of huge pages has a path for its name; the shard's object is a POSIX one all the same.
  return std::string("/").append(pool_name.substr(pool_name.rfind('/') + 1)).append(suffix);
}

result<shard_object> shard_object::create(const std::string& pool_name, std::uint64_t units,
                                          std::optional<gid_t> group) {
  const auto name = name_of(pool_name);
  auto file = shared_object::create_locked(name);
  if (!file)
    return file.error();
  close_in_children(*file);
  shard_object made(name, *file);
  if (auto shared = shared_object::share_with(*file, name, group); !shared)
    return shared.error();
  const auto pieces = (units + piece_units - 1) / piece_units;
  if (::ftruncate(*file, static_cast<off_t>(pieces * piece_units * shard_unit_bytes)) != 0)
    return shared_object::failed("cannot size", name);
  return made;
}

std::size_t shard_object::remove_leftovers(const std::string& name_prefix) {
  std::size_t removed = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(shared_object::posix_directory, failed), end;
       !failed && it != end; it.increment(failed)) {
    const auto file = it->path().filename().string();
    if (file.starts_with(name_prefix + "-") && file.ends_with(suffix))
      removed += remove_if_abandoned(std::string("/").append(file)) ? 1 : 0;
  }
  return removed;
}

shard_object::shard_object(shard_object&& from) noexcept
    : name_(std::move(from.name_)), file_(std::exchange(from.file_, -1)) {}

shard_object& shard_object::operator=(shard_object&& from) noexcept {
  std::swap(name_, from.name_);
  std::swap(file_, from.file_);
  return *this;
}

shard_object::~shard_object() {
  if (file_ < 0 || !home_.is_here())
    return;
  shared_object::unlink(name_);
  close_noted(file_);
}

result<std::unique_ptr<const attached_shard>> attached_shard::attach(const std::string& pool_name,
                                                                     std::optional<gid_t> group) {
  const auto name = shard_object::name_of(pool_name);
  const auto file = shared_object::open(name, O_RDONLY);
  if (file < 0)
    return shared_object::failed("cannot open", name);
  struct stat found {};
  const bool known = ::fstat(file, &found) == 0;
  const bool allowed = known && shared_object::may_be_mapped(found, group);
  const auto bytes = static_cast<std::uint64_t>(found.st_size);
  // Reading memory that the node has not taken would take it, and end this process if there is
  // none: a file of holes is looked at by `pread` first.
  unit_words first{};
  const bool begun = allowed && bytes >= shard_unit_bytes &&
                     ::pread(file, first.data(), sizeof first, 0) == sizeof first && first[0] != 0;
  auto* const base = begun ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  const auto why = known && !allowed
                       ? error{errc::refused, name + " is another user's, or others may use it"}
                   : allowed && !begun ? error{errc::not_found, name + " has no shard"}
                                       : shared_object::failed("cannot map", name);
  ::close(file);
  if (base == MAP_FAILED)
    return why;
  ::madvise(base, bytes, MADV_DONTFORK);
  return std::unique_ptr<const attached_shard>(
      new attached_shard(static_cast<const shard_unit*>(base), bytes));
}

attached_shard::~attached_shard() {
  if (home_.is_here())
    ::munmap(const_cast<shard_unit*>(base_), bytes_);
}

} // namespace peercache::directory
