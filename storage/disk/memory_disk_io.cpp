#include "storage/disk/memory_disk_io.hpp"

#include "common/assert.hpp"
#include "storage/disk/disk_error.hpp"
#include "storage/disk/disk_name.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace peercache::storage {

using std::chrono::nanoseconds;

namespace {

/// Far from an overflow; who waits again and again for another thread gets there.
constexpr nanoseconds time_ends = std::chrono::hours(24 * 365 * 100);

} // namespace

memory_disk_io::memory_disk_io(const memory_disk_options& options)
    : options_(options), made_(std::chrono::steady_clock::now()), faults_(options.seed),
      random_(options.seed * 0x9e3779b97f4a7c15ull + 1), capacity_bytes_(options.capacity_bytes) {}

// -- what everything goes through

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
          ->perhaps(++order_, one.request.offset_bytes, one.request.bytes, one.bytes);
}

nanoseconds memory_disk_io::time() const {
  return options_.real_time ? std::chrono::steady_clock::now() - made_ : now_;
}

/// What is done at once takes its time in the thread that asks.
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

// -- files and folders

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

// -- transfers

result<void> memory_disk_io::register_memory(std::span<std::byte>) {
  const std::lock_guard lock(mutex_);
  PEERCACHE_ASSERT(flights_.empty());
  return {};
}

bool memory_disk_io::submit(const disk_request& request) {
  using kind = disk_request::kind;
  const std::lock_guard lock(mutex_);
  PEERCACHE_ASSERT(open_of(request.file).folder.has_value() == (request.what == kind::sync_folder));
  if (!is_sync(request.what))
    PEERCACHE_ASSERT(request.offset_bytes % disk_block_bytes == 0 && request.bytes != 0 &&
                     request.bytes % disk_block_bytes == 0 &&
                     reinterpret_cast<std::uintptr_t>(request.memory) % disk_block_bytes == 0);
  const auto like = std::count_if(flights_.begin(), flights_.end(), [&](const flight& other) {
    return is_sync(other.request.what) == is_sync(request.what);
  });
  if (static_cast<std::uint32_t>(like) == options_.queue_depth)
    return false;
  flight one{.request = request,
             .sync_before = order_ + 1,
             .names_before = names_.next_change(),
             .number = ++submitted_};
  if (request.what == kind::write) {
    std::shared_ptr<std::byte> copy(new std::byte[request.bytes],
                                    std::default_delete<std::byte[]>());
    std::memcpy(copy.get(), request.memory, request.bytes);
    one.bytes = std::move(copy);
  }
  const auto what = request.what == kind::read    ? disk_operation::read
                    : request.what == kind::write ? disk_operation::write
                                                  : disk_operation::sync;
  one.due = time() + faults_.delay_of(what);
  flights_.push_back(std::move(one));
  return true;
}

std::size_t memory_disk_io::pick_due() {
  const auto now = time();
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < flights_.size(); ++i)
    if (flights_[i].due <= now)
      due.push_back(i);
  if (due.empty() || (hanging_ && !stopped_))
    return flights_.size();
  if (options_.reorder)
    return due[random_() % due.size()];
  return *std::min_element(due.begin(), due.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(flights_[a].due, flights_[a].number) <
           std::pair(flights_[b].due, flights_[b].number);
  });
}

std::size_t memory_disk_io::reap(std::span<disk_completion> completions) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  while (count < completions.size()) {
    const auto at = pick_due();
    if (at == flights_.size())
      break;
    int error_number = 0;
    if (!step(flights_[at], error_number))
      continue;
    completions[count++] = {flights_[at].request.tag, error_number};
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return count;
}

/// True when the request has completed.
bool memory_disk_io::step(flight& what, int& error_number) {
  if (!is_sync(what.request.what))
    return step_transfer(what, error_number);
  error_number = step_sync(what);
  return true;
}

int memory_disk_io::step_sync(const flight& what) {
  int error_number = admit(disk_operation::sync, true);
  if (what.request.what == disk_request::kind::sync_folder)
    return error_number != 0
               ? error_number
               : names_.sync_folder(*open_of(what.request.file).folder, what.names_before);
  auto& file = *file_of(what.request.file);
  if (error_number == 0)
    file.sync(what.sync_before);
  else if (!stopped_)
    file.sync_failed(what.sync_before);
  return error_number;
}

bool memory_disk_io::step_transfer(flight& what, int& error_number) {
  const auto& request = what.request;
  const bool writes = request.what == disk_request::kind::write;
  auto& file = *file_of(request.file);
  const auto end = request.offset_bytes + request.bytes;
  if (what.done_bytes == 0) {
    error_number = admit(writes ? disk_operation::write : disk_operation::read, writes);
    if (error_number == 0 && !writes && end > file.bytes())
      error_number = EIO;
    const auto grows = in_blocks(end) - std::min(in_blocks(end), in_blocks(file.bytes()));
    if (error_number == 0 && writes && grows != 0 && names_.used_bytes() + grows > capacity_bytes_)
      error_number = ENOSPC;
  } else if (stopped_) {
    error_number = EIO;
  }
  if (error_number != 0) {
    if (!stopped_)
      fail_in_part(what);
    return true;
  }
  auto bytes = request.bytes - what.done_bytes;
  if (bytes > disk_block_bytes && faults_.is_short())
    bytes = static_cast<std::uint32_t>(1 + random_() % (bytes / disk_block_bytes - 1)) *
            disk_block_bytes;
  if (writes)
    write_piece(what, bytes);
  else
    file.read(request.offset_bytes + what.done_bytes, {request.memory + what.done_bytes, bytes});
  what.done_bytes += bytes;
  return what.done_bytes == request.bytes;
}

void memory_disk_io::write_piece(flight& what, std::uint32_t bytes) {
  const auto& request = what.request;
  PEERCACHE_ASSERT(std::memcmp(request.memory, what.bytes.get(), request.bytes) == 0);
  auto& file = *file_of(request.file);
  const auto before = file.bytes();
  file.write(++order_, request.offset_bytes + what.done_bytes, bytes,
             {what.bytes, what.bytes.get() + what.done_bytes});
  names_.count(file, before);
}

/// What failed has left something of itself: blocks of a write in the file, noise in a read's
/// memory.
void memory_disk_io::fail_in_part(flight& what) {
  const auto& request = what.request;
  auto& file = *file_of(request.file);
  for (; what.done_bytes < request.bytes; what.done_bytes += disk_block_bytes) {
    if (random_() % 2 == 0)
      continue;
    if (request.what == disk_request::kind::read)
      std::memset(request.memory + what.done_bytes, static_cast<int>(random_() % 256),
                  disk_block_bytes);
    else if (request.offset_bytes + what.done_bytes < file.bytes())
      write_piece(what, disk_block_bytes);
  }
}

void memory_disk_io::wait(nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  at_most = std::clamp<nanoseconds>(at_most, nanoseconds(0), std::chrono::hours(24));
  auto until = std::min(time() + at_most, time_ends);
  if (!hanging_ || stopped_)
    for (const auto& one : flights_)
      until = std::min(until, one.due);
  if (options_.real_time)
    woken_up_.wait_until(lock, made_ + until, [&] { return woken_; });
  else if (!woken_)
    now_ = std::max(now_, until);
  woken_ = false;
}

void memory_disk_io::wake() noexcept {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  woken_up_.notify_one();
}

std::uint32_t memory_disk_io::in_flight() const noexcept {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(flights_.size());
}

} // namespace peercache::storage
