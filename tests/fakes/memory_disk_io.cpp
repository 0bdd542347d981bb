#include "tests/fakes/memory_disk_io.hpp"

#include "common/assert.hpp"
#include "storage/disk/io/disk_error.hpp"
#include "storage/disk/io/disk_name.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace peercache::storage {

using std::chrono::nanoseconds;

memory_disk_io::memory_disk_io(const memory_disk_options& options)
    : options_(options), made_(std::chrono::steady_clock::now()), faults_(options.seed),
      random_(options.seed * 0x9e3779b97f4a7c15ull + 1), capacity_bytes_(options.capacity_bytes),
      on_way_(options.queue_depth) {}

// -- methods that all operations use: faults, time, open files

int memory_disk_io::admit(disk_operation what, bool changes) const {
  if (!stopped_ && changes && operations_ == stop_at_)
    stop();
  if (stopped_)
    return EIO;
  if (changes)
    ++operations_;
  return faults_.next(what);
}

void memory_disk_io::stop() const {
  stopped_ = true;
  for (const auto& one : flights_)
    if (one.request.what == disk_request::kind::write)
      file_of(one.request.file)
          ->perhaps(++order_, one.request.offset_bytes, bytes_to_move(one.request), one.bytes);
}

nanoseconds memory_disk_io::time() const {
  return options_.real_time ? std::chrono::steady_clock::now() - made_ : now_;
}

/// Delays an operation that the calling thread does itself, such as an open or a rename.
void memory_disk_io::take_time(disk_operation what) const {
  nanoseconds delay;
  {
    const std::lock_guard lock(mutex_);
    delay = faults_.delay_of(what);
    if (!options_.real_time)
      now_ += delay;
  }
  if (options_.real_time && delay.count() > 0)
    std::this_thread::sleep_for(delay);
}

const memory_disk_io::open_file& memory_disk_io::open_of(disk_file file) const {
  PEERCACHE_ASSERT(file.value < open_.size() && open_[file.value].in_use());
  return open_[file.value];
}

const memory_disk_io::file_ptr& memory_disk_io::file_of(disk_file file) const {
  PEERCACHE_ASSERT(open_of(file).file);
  return open_of(file).file;
}

// -- methods that open, make, rename and remove files and folders

disk_file memory_disk_io::keep_open(open_file what) {
  const auto free =
      std::find_if(open_.begin(), open_.end(), [](const open_file& one) { return !one.in_use(); });
  const disk_file handle{static_cast<std::uint32_t>(free - open_.begin())};
  if (free == open_.end())
    open_.push_back(std::move(what));
  else
    *free = std::move(what);
  return handle;
}

result<void> memory_disk_io::change_names(disk_operation kind, const std::string& name,
                                          std::string_view doing,
                                          const std::function<int()>& change) {
  take_time(kind);
  const std::lock_guard lock(mutex_);
  int failed = admit(kind, true);
  if (failed == 0)
    failed = change();
  if (failed != 0)
    return disk_error(failed, doing, name);
  return {};
}

result<disk_file> memory_disk_io::create(const std::string& file, std::uint64_t bytes) {
  if (auto inside = check_disk_name(file); !inside)
    return inside.error();
  result<disk_file> made = disk_file{};
  auto done = change_names(disk_operation::metadata, file, "create", [&] {
    if (names_.used_bytes() + in_blocks(bytes) > capacity_bytes_)
      return ENOSPC;
    auto fresh = std::make_shared<memory_disk_file>();
    fresh->resize(++order_, bytes);
    if (const int failed = names_.add_file(file, fresh); failed != 0)
      return failed;
    made = keep_open({std::move(fresh), {}});
    return 0;
  });
  if (!done)
    return done.error();
  return made;
}

result<disk_file> memory_disk_io::open(const std::string& file) {
  if (auto inside = check_disk_name(file); !inside)
    return inside.error();
  take_time(disk_operation::metadata);
  const std::lock_guard lock(mutex_);
  if (const int failed = admit(disk_operation::metadata, false); failed != 0)
    return disk_error(failed, "open", file);
  auto found = names_.find(file);
  if (!found)
    return disk_error(names_.is_folder(file) ? EISDIR : ENOENT, "open", file);
  return keep_open({std::move(found), {}});
}

result<disk_file> memory_disk_io::open_folder(const std::string& folder) {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside.error();
  take_time(disk_operation::metadata);
  const std::lock_guard lock(mutex_);
  if (const int failed = admit(disk_operation::metadata, false); failed != 0)
    return disk_error(failed, "open the folder", folder);
  if (!names_.is_folder(folder))
    return disk_error(names_.find(folder) ? ENOTDIR : ENOENT, "open the folder", folder);
  return keep_open({nullptr, folder});
}

void memory_disk_io::close(disk_file file) {
  const std::lock_guard lock(mutex_);
  open_of(file);
  PEERCACHE_ASSERT(std::none_of(flights_.begin(), flights_.end(),
                                [&](const flight& one) { return one.request.file == file; }));
  open_[file.value] = {};
}

result<void> memory_disk_io::truncate(disk_file file, std::uint64_t bytes) {
  return change_names(disk_operation::metadata, "", "truncate", [&] {
    auto& what = *file_of(file);
    const auto before = what.bytes();
    if (bytes > before &&
        names_.used_bytes() + in_blocks(bytes) - in_blocks(before) > capacity_bytes_)
      return ENOSPC;
    what.resize(++order_, bytes);
    names_.count(what, before);
    return 0;
  });
}

result<std::uint64_t> memory_disk_io::bytes_of(disk_file file) {
  const std::lock_guard lock(mutex_);
  return file_of(file)->bytes();
}

result<void> memory_disk_io::rename(const std::string& from, const std::string& to) {
  for (const auto& name : {from, to})
    if (auto inside = check_disk_name(name); !inside)
      return inside;
  return change_names(disk_operation::metadata, from, "rename",
                      [&] { return names_.rename(from, to); });
}

result<void> memory_disk_io::remove(const std::string& file) {
  if (auto inside = check_disk_name(file); !inside)
    return inside;
  return change_names(disk_operation::metadata, file, "remove",
                      [&] { return names_.remove(file); });
}

result<void> memory_disk_io::make_folder(const std::string& folder) {
  if (auto inside = check_disk_name(folder); !inside)
    return inside;
  return change_names(disk_operation::metadata, folder, "make the folder",
                      [&] { return names_.add_folder(folder); });
}

result<void> memory_disk_io::sync_folder(const std::string& folder) {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside;
  return change_names(disk_operation::sync, folder, "sync the folder",
                      [&] { return names_.sync_folder(folder); });
}

result<std::vector<disk_folder_entry>> memory_disk_io::list(const std::string& folder) const {
  if (auto inside = check_disk_folder(folder); !inside)
    return inside.error();
  take_time(disk_operation::metadata);
  const std::lock_guard lock(mutex_);
  if (const int failed = admit(disk_operation::metadata, false); failed != 0)
    return disk_error(failed, "list", folder);
  auto entries = names_.list(folder);
  if (!entries)
    return disk_error(names_.find(folder) ? ENOTDIR : ENOENT, "list", folder);
  return std::move(*entries);
}

result<disk_space> memory_disk_io::space() const {
  const std::lock_guard lock(mutex_);
  const auto used = names_.used_bytes();
  return disk_space{capacity_bytes_, capacity_bytes_ - std::min(used, capacity_bytes_)};
}

result<std::size_t> memory_disk_io::read_now(const std::string& file, std::uint64_t offset_bytes,
                                             std::span<std::byte> into) const {
  if (auto inside = check_disk_name(file); !inside)
    return inside.error();
  take_time(disk_operation::read);
  const std::lock_guard lock(mutex_);
  if (const int failed = admit(disk_operation::read, false); failed != 0)
    return disk_error(failed, "read", file);
  const auto found = names_.find(file);
  if (!found)
    return disk_error(names_.is_folder(file) ? EISDIR : ENOENT, "read", file);
  const auto end = found->bytes();
  const auto bytes =
      offset_bytes >= end ? 0 : std::min<std::uint64_t>(into.size(), end - offset_bytes);
  found->read(std::min(offset_bytes, end), into.first(bytes));
  return static_cast<std::size_t>(bytes);
}

} // namespace peercache::storage
