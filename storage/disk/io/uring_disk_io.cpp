#include "storage/disk/io/uring_disk_io.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <system_error>
#include <unistd.h>

namespace peercache::storage {
namespace {

constexpr std::uint64_t wake_mark = ~0ull;
constexpr std::uint32_t queue_depth_most = 4096;
/// Size of the ring's table of open files; files with higher handles are used by their descriptors.
constexpr std::uint32_t registered_files_most = 1024;
/// The most kernel threads in which syncs wait. The kernel makes these threads when they are needed
/// and ends them afterwards; with its own limit of four for each CPU the syncs of many files would
/// wait for one another.
constexpr unsigned waiting_threads_most = 64;
/// The most bytes that the kernel takes as one registered buffer.
constexpr std::uint64_t buffer_bytes_most = 1ull << 30;

std::string text_of(int error_number) {
  return std::generic_category().message(error_number);
}

std::string why_no_ring(int error_number) {
  switch (error_number) {
  case ENOSYS:
    return "this kernel has no io_uring";
  case EPERM:
  case EACCES: {
    int disabled = 0;
    std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
    if (disabled != 0)
      return "io_uring is forbidden by kernel.io_uring_disabled = " + std::to_string(disabled);
    return "io_uring is forbidden, probably by the container's seccomp profile";
  }
  case ENOMEM:
    return "io_uring finds no memory: raise the limit of locked memory (ulimit -l, LimitMEMLOCK)";
  default:
    return "io_uring_setup failed: " + text_of(error_number);
  }
}

/// Makes the ring. Returns 0 or an errno.
int make_ring(io_uring& ring, std::uint32_t entries) {
  // With the first flags a completion does not interrupt the thread while it runs; older kernels
  // refuse these flags, and the ring is made without any.
  for (const unsigned flags : {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0u}) {
    io_uring_params params{};
    params.flags = flags;
    const int made = io_uring_queue_init_params(entries, &ring, &params);
    if (made == 0 && (params.features & IORING_FEAT_EXT_ARG) == 0) {
      io_uring_queue_exit(&ring);
      return ENOSYS;
    }
    if (made != -EINVAL)
      return -made;
  }
  return EINVAL;
}

} // namespace

result<std::unique_ptr<uring_disk_io>> uring_disk_io::make(opened_folder& folder,
                                                           std::uint32_t queue_depth) {
  queue_depth = std::clamp(queue_depth, 1u, queue_depth_most);
  io_uring ring{};
  // Each request on its way has one entry at a time, and the wake has one, so entries never run
  // out.
  if (const int failed = make_ring(ring, 2 * queue_depth + 1); failed != 0)
    return {errc::refused, why_no_ring(failed)};
  std::array<unsigned, 2> threads{std::min(queue_depth, waiting_threads_most), 0};
  // The result is ignored: with fewer kernel threads, syncs only take longer.
  io_uring_register_iowq_max_workers(&ring, threads.data());
  owned_fd wake_fd(::eventfd(0, EFD_CLOEXEC));
  if (!wake_fd) {
    const int failed = errno;
    io_uring_queue_exit(&ring);
    return {errc::refused, "no eventfd: " + text_of(failed)};
  }
  return std::unique_ptr<uring_disk_io>(
      new uring_disk_io(std::move(folder), queue_depth, ring, std::move(wake_fd)));
}

uring_disk_io::uring_disk_io(opened_folder folder, std::uint32_t queue_depth, const io_uring& ring,
                             owned_fd wake_fd)
    : folder_disk_io(std::move(folder)), ring_(ring), wake_fd_(std::move(wake_fd)),
      flights_(std::size_t{2} * queue_depth), parts_(flights_.size()), on_way_(queue_depth) {
  for (auto i = 2 * queue_depth; i != 0; --i)
    free_.push_back(i - 1);
  if (io_uring_register_files_sparse(&ring_, registered_files_most) == 0)
    files_registered_ = registered_files_most;
}

uring_disk_io::~uring_disk_io() {
  drain();
  io_uring_queue_exit(&ring_);
}

/// Waits until all requests and the read of the eventfd have completed: until then the kernel holds
/// memory of this object and of callers.
void uring_disk_io::drain() {
  wake();
  while (in_flight() != 0 || wake_armed_) {
    io_uring_submit_and_wait(&ring_, 1);
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
      const auto mark = cqe->user_data;
      io_uring_cqe_seen(&ring_, cqe);
      if (mark == wake_mark)
        wake_armed_ = false;
      else
        free_.push_back(static_cast<std::uint32_t>(mark));
    }
  }
}

// Functions for files and memory that are registered with the ring.

void uring_disk_io::on_open(disk_file file, int fd) {
  if (file.value < files_registered_ &&
      io_uring_register_files_update(&ring_, file.value, &fd, 1) != 1)
    // The ring has no place for this file, so it and later files are used by their descriptors.
    files_registered_ = file.value;
}

void uring_disk_io::on_close(disk_file file) {
  int none = -1;
  if (file.value < files_registered_)
    io_uring_register_files_update(&ring_, file.value, &none, 1);
}

result<void> uring_disk_io::register_memory(std::span<std::byte> memory) {
  PEERCACHE_ASSERT(in_flight() == 0);
  auto buffers = buffers_;
  for (std::size_t at = 0; at < memory.size(); at += buffer_bytes_most) {
    const auto bytes = std::min<std::size_t>(buffer_bytes_most, memory.size() - at);
    buffers.push_back({memory.data() + at, memory.data() + at + bytes, 0});
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const buffer& a, const buffer& b) { return a.begin < b.begin; });
  std::vector<iovec> parts;
  for (auto& one : buffers) {
    one.index = static_cast<int>(parts.size());
    parts.push_back({one.begin, static_cast<std::size_t>(one.end - one.begin)});
  }
  if (!buffers_.empty())
    io_uring_unregister_buffers(&ring_);
  buffers_.clear();
  const int made =
      io_uring_register_buffers(&ring_, parts.data(), static_cast<unsigned>(parts.size()));
  if (made == 0) {
    buffers_ = std::move(buffers);
    return {};
  }
  const std::string what = "cannot register " + std::to_string(memory.size()) +
                           " bytes with io_uring: " + text_of(-made) + "; transfers cost more CPU";
  if (made == -ENOMEM)
    return {errc::out_of_memory,
            what + ". Raise the limit of locked memory (ulimit -l, LimitMEMLOCK)"};
  return {errc::io_failed, what};
}

const uring_disk_io::buffer* uring_disk_io::buffer_of(const std::byte* memory,
                                                      std::uint32_t bytes) const {
  auto after =
      std::upper_bound(buffers_.begin(), buffers_.end(), memory,
                       [](const std::byte* at, const buffer& one) { return at < one.begin; });
  if (after == buffers_.begin())
    return nullptr;
  --after;
  return memory + bytes <= after->end ? &*after : nullptr;
}

// Functions for transfers and the wake.

io_uring_sqe* uring_disk_io::next_entry() {
  auto* entry = io_uring_get_sqe(&ring_);
  // The ring is full of entries that are not submitted yet: submitting them makes room.
  if (entry == nullptr) {
    io_uring_submit(&ring_);
    entry = io_uring_get_sqe(&ring_);
  }
  PEERCACHE_ASSERT(entry != nullptr);
  return entry;
}

void uring_disk_io::prepare(std::uint32_t flight) {
  using kind = disk_request::kind;
  const auto& request = flights_[flight].request();
  const bool by_table = request.file.value < files_registered_;
  const int file = by_table ? static_cast<int>(request.file.value) : fd_of(request.file);
  auto* entry = next_entry();
  if (is_sync(request.what))
    io_uring_prep_fsync(entry, file, request.what == kind::sync ? IORING_FSYNC_DATASYNC : 0);
  else
    prepare_transfer(entry, file, flight);
  if (by_table)
    entry->flags |= IOSQE_FIXED_FILE;
  entry->user_data = flight;
}

void uring_disk_io::prepare_transfer(io_uring_sqe* entry, int file, std::uint32_t flight) {
  const auto& transfer = flights_[flight];
  auto* const memory = transfer.memory();
  const auto bytes = transfer.bytes();
  const auto offset_bytes = transfer.offset_bytes();
  const bool reads = transfer.request().what == disk_request::kind::read;
  if (transfer.head() != nullptr) {
    auto& parts = parts_[flight];
    parts = {iovec{transfer.head(), disk_block_bytes}, iovec{memory, bytes}};
    io_uring_prep_writev(entry, file, parts.data(), parts.size(), offset_bytes);
  } else if (const auto* fixed = buffer_of(memory, bytes); fixed != nullptr) {
    if (reads)
      io_uring_prep_read_fixed(entry, file, memory, bytes, offset_bytes, fixed->index);
    else
      io_uring_prep_write_fixed(entry, file, memory, bytes, offset_bytes, fixed->index);
  } else if (reads) {
    io_uring_prep_read(entry, file, memory, bytes, offset_bytes);
  } else {
    io_uring_prep_write(entry, file, memory, bytes, offset_bytes);
  }
}

void uring_disk_io::prepare_wake() {
  auto* entry = next_entry();
  io_uring_prep_read(entry, wake_fd_.get(), &wake_count_, sizeof(wake_count_), 0);
  entry->user_data = wake_mark;
  wake_armed_ = true;
}

bool uring_disk_io::submit(const disk_request& request) {
  check(request);
  if (!on_way_.takes(request))
    return false;
  on_way_.add(request);
  const auto flight = free_.back();
  free_.pop_back();
  flights_[flight] = piecewise_transfer(request);
  prepare(flight);
  count_request(request.file);
  return true;
}

std::optional<disk_completion> uring_disk_io::settle(std::uint64_t user_data, std::int32_t moved) {
  if (user_data == wake_mark) {
    wake_armed_ = false;
    wake_asked_.store(false);
    woken_ = true;
    return std::nullopt;
  }
  const auto flight = static_cast<std::uint32_t>(user_data);
  const auto error_number = flights_[flight].on_result(moved);
  if (!error_number) {
    prepare(flight);
    return std::nullopt;
  }
  const auto request = flights_[flight].request();
  free_.push_back(flight);
  on_way_.remove(request);
  count_completion(request.file);
  return disk_completion{request.tag, *error_number};
}

std::size_t uring_disk_io::reap(std::span<disk_completion> completions) {
  if (io_uring_sq_ready(&ring_) != 0)
    io_uring_submit(&ring_);
  std::size_t count = 0;
  io_uring_cqe* cqe = nullptr;
  while (count < completions.size() && io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const auto user_data = cqe->user_data;
    const auto moved = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (const auto done = settle(user_data, moved))
      completions[count++] = *done;
  }
  // Submits the next pieces of transfers of which only a part was moved.
  if (io_uring_sq_ready(&ring_) != 0)
    io_uring_submit(&ring_);
  return count;
}

void uring_disk_io::wait(std::chrono::nanoseconds at_most) {
  if (!wake_armed_ && !woken_)
    prepare_wake();
  at_most = std::clamp<std::chrono::nanoseconds>(at_most, std::chrono::nanoseconds(0),
                                                 std::chrono::hours(24));
  if (woken_)
    at_most = std::chrono::nanoseconds(0);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  __kernel_timespec until{seconds.count(), (at_most - seconds).count()};
  io_uring_cqe* cqe = nullptr;
  io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &until, nullptr);
  // The completion of the wake is taken here; otherwise the next wait would end because of it.
  if (cqe != nullptr && cqe->user_data == wake_mark) {
    const auto moved = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    settle(wake_mark, moved);
  }
  woken_ = false;
}

void uring_disk_io::wake() noexcept {
  if (wake_asked_.exchange(true))
    return;
  const std::uint64_t one = 1;
  // The write cannot block and fails with EINTR only: the eventfd's count is 0 or 1.
  while (::write(wake_fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR)
    ;
}

} // namespace peercache::storage
