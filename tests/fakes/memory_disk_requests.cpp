// Methods of `memory_disk_io` for requests, from `submit` to their completion.

#include "common/assert.hpp"
#include "tests/fakes/memory_disk_io.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace peercache::storage {

using std::chrono::nanoseconds;

namespace {

/// The simulated clock stops at this time, so that it cannot overflow: waits for another thread may
/// move the clock forward again and again.
constexpr nanoseconds time_ends = std::chrono::hours(24 * 365 * 100);

/// Returns a copy of all bytes of a write request: those of its `head`, then those of its `memory`.
memory_disk_file::bytes_ptr copy_of(const disk_request& write) {
  std::shared_ptr<std::byte> copy(new std::byte[bytes_to_move(write)],
                                  std::default_delete<std::byte[]>());
  const auto head_bytes = bytes_to_move(write) - write.bytes;
  if (head_bytes != 0)
    std::memcpy(copy.get(), write.head, head_bytes);
  std::memcpy(copy.get() + head_bytes, write.memory, write.bytes);
  return copy;
}

bool same_as(const disk_request& write, const std::byte* bytes) {
  const auto head_bytes = bytes_to_move(write) - write.bytes;
  return (head_bytes == 0 || std::memcmp(write.head, bytes, head_bytes) == 0) &&
         std::memcmp(write.memory, bytes + head_bytes, write.bytes) == 0;
}

} // namespace

result<void> memory_disk_io::register_memory(std::span<std::byte>) {
  const std::lock_guard lock(mutex_);
  PEERCACHE_ASSERT(flights_.empty());
  return {};
}

bool memory_disk_io::submit(const disk_request& request) {
  using kind = disk_request::kind;
  const std::lock_guard lock(mutex_);
  PEERCACHE_ASSERT(open_of(request.file).folder.has_value() == (request.what == kind::sync_folder));
  PEERCACHE_ASSERT(in_whole_blocks(request));
  if (!on_way_.takes(request))
    return false;
  on_way_.add(request);
  flight one{.request = request,
             .sync_before = order_ + 1,
             .names_before = names_.next_change(),
             .number = ++submitted_};
  if (request.what == kind::write)
    one.bytes = copy_of(request);
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
    on_way_.remove(flights_[at].request);
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return count;
}

/// Carries out the next step of a request. Returns whether the request has completed.
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
  const auto end = request.offset_bytes + bytes_to_move(request);
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
  auto bytes = bytes_to_move(request) - what.done_bytes;
  if (bytes > disk_block_bytes && faults_.is_short())
    bytes = static_cast<std::uint32_t>(1 + random_() % (bytes / disk_block_bytes - 1)) *
            disk_block_bytes;
  if (writes)
    write_piece(what, bytes);
  else
    file.read(request.offset_bytes + what.done_bytes, {request.memory + what.done_bytes, bytes});
  what.done_bytes += bytes;
  return what.done_bytes == bytes_to_move(request);
}

void memory_disk_io::write_piece(flight& what, std::uint32_t bytes) {
  const auto& request = what.request;
  PEERCACHE_ASSERT(same_as(request, what.bytes.get()));
  auto& file = *file_of(request.file);
  const auto before = file.bytes();
  file.write(++order_, request.offset_bytes + what.done_bytes, bytes,
             {what.bytes, what.bytes.get() + what.done_bytes});
  names_.count(file, before);
}

/// Leaves a request that fails half done: writes some of a write's blocks to the file, and random
/// bytes into a read's memory.
void memory_disk_io::fail_in_part(flight& what) {
  const auto& request = what.request;
  auto& file = *file_of(request.file);
  for (; what.done_bytes < bytes_to_move(request); what.done_bytes += disk_block_bytes) {
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
