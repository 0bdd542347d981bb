#include "storage/pool_memory.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"
#include "storage/pool_header.hpp"
#include "storage/pool_leftovers.hpp"
#include "storage/shared_object.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::storage {
namespace {

constexpr std::uint64_t huge_page_bytes = 2u << 20;
constexpr std::uint64_t pretouch_step_bytes = 64u << 20;
constexpr std::uint64_t session_byte = 4096;
constexpr std::size_t node_name_in_object_name_max = 100;
constexpr const char* shm_directory = "/dev/shm";
/// While a piece is unmapped, no other thread of the process can map or unmap anything.
constexpr std::uint64_t unmap_step_bytes = 64u << 20;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

struct layout {
  std::uint32_t granules = 0;
  std::uint32_t index_buckets = 0;
  std::uint64_t table_offset = 0;
  std::uint64_t pages_offset = 0;
  std::uint64_t object_bytes = 0;
};

result<layout> layout_for(const pool_memory_options& options) {
  auto unit = options.huge_page_directory.empty() ? limits::granule_bytes : huge_page_bytes;
  auto pages_bytes = options.size_bytes / unit * unit;
  auto granules = pages_bytes / limits::granule_bytes;
  if (granules == 0 || granules >= UINT32_MAX)
    return {errc::invalid_argument,
            "pool.size must be at least " + std::to_string(unit) + " bytes and below 16 TiB"};
  layout plan;
  plan.granules = static_cast<std::uint32_t>(granules);
  plan.index_buckets = host_index::buckets_for(plan.granules);
  plan.table_offset =
      round_up(pool_header_bytes + plan.index_buckets * std::uint64_t{sizeof(host_index::bucket)},
               limits::granule_bytes);
  plan.pages_offset = round_up(plan.table_offset + granules * sizeof(slot_entry), unit);
  plan.object_bytes = plan.pages_offset + pages_bytes;
  return plan;
}

std::string object_name(const pool_memory_options& options) {
  auto node = options.node_name.substr(0, node_name_in_object_name_max);
  for (auto& c : node)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-')
      c = '_';
  return options.huge_page_directory + "/" + options.name_prefix + "-" + node + "-" +
         to_string(options.owner);
}

result<void> check_space(const pool_memory_options& options, std::uint64_t needed_bytes) {
  auto huge = !options.huge_page_directory.empty();
  std::string where = huge ? options.huge_page_directory : shm_directory;
  struct statfs status {};
  if (::statfs(where.c_str(), &status) != 0)
    return shared_object::failed("cannot use", where);
  if (huge && status.f_type != HUGETLBFS_MAGIC)
    return {errc::invalid_argument,
            where + " is not a hugetlbfs mount; mount one (mount -t hugetlbfs none " + where +
                ") or switch pool.huge_pages off"};
  auto free_bytes =
      static_cast<std::uint64_t>(status.f_bavail) * static_cast<std::uint64_t>(status.f_bsize);
  // A tmpfs without a size limit counts no blocks.
  if (status.f_blocks != 0 && free_bytes < needed_bytes)
    return {errc::out_of_memory,
            where + " has " + std::to_string(free_bytes) + " bytes free, the pool needs " +
                std::to_string(needed_bytes) +
                (huge ? "; raise vm.nr_hugepages or lower pool.size"
                      : "; enlarge it (mount -o remount,size=...) or lower pool.size")};
  return {};
}

/// Gives the range memory, without ever raising SIGBUS. Returns errno.
int populate(int file, std::byte* base, std::uint64_t offset, std::uint64_t size_bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(base + offset, size_bytes, MADV_POPULATE_WRITE) == 0)
    return 0;
  if (errno != EINVAL)
    return errno == EFAULT ? ENOMEM : errno; // EFAULT: a touch would have been SIGBUS.
#endif
  // Before Linux 5.14: memory first, then this process's page tables.
  if (::fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(size_bytes)) != 0)
    return errno;
  for (std::uint64_t at = offset; at < offset + size_bytes; at += limits::granule_bytes)
    std::atomic_ref(base[at]).store(std::byte{0}, std::memory_order_relaxed);
  return 0;
}

result<void> check_header(const pool_header& header, std::uint64_t object_bytes,
                          const std::string& name) {
  if (header.magic.load(std::memory_order_acquire) != pool_magic)
    return {errc::incompatible, name + " is not a PeerCache pool, or not ready yet"};
  if (header.layout_version != pool_layout_version || header.granule_bytes != limits::granule_bytes)
    return {errc::incompatible, name + " has layout version " +
                                    std::to_string(header.layout_version) + ", this program " +
                                    std::to_string(pool_layout_version) +
                                    "; use the same release for node and client"};
  auto index_end = header.index_offset + header.index_buckets * sizeof(host_index::bucket);
  auto table_end = header.table_offset + std::uint64_t{header.granules} * sizeof(slot_entry);
  auto pages_end = header.pages_offset + std::uint64_t{header.granules} * limits::granule_bytes;
  if (header.object_bytes != object_bytes || header.index_offset < sizeof(pool_header) ||
      header.index_offset > object_bytes ||
      header.index_offset % alignof(host_index::bucket) != 0 || header.index_buckets == 0 ||
      index_end > header.table_offset || header.table_offset % alignof(slot_entry) != 0 ||
      table_end > header.pages_offset || header.pages_offset > object_bytes ||
      pages_end > object_bytes || header.granules == 0)
    return {errc::incompatible, name + ": the header's sizes contradict the object's"};
  return {};
}

} // namespace

pool_memory::pool_memory(pool_memory&& other) noexcept {
  *this = std::move(other);
}

pool_memory& pool_memory::operator=(pool_memory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(owner_, other.owner_);
  std::swap(base_, other.base_);
  std::swap(object_bytes_, other.object_bytes_);
  std::swap(index_offset_, other.index_offset_);
  std::swap(table_offset_, other.table_offset_);
  std::swap(pages_offset_, other.pages_offset_);
  std::swap(granules_, other.granules_);
  std::swap(index_buckets_, other.index_buckets_);
  std::swap(file_, other.file_);
  std::swap(is_owner_, other.is_owner_);
  std::swap(home_, other.home_);
  return *this;
}

pool_memory::~pool_memory() {
  release();
}

void pool_memory::release() noexcept {
  if (!home_.is_here())
    return; // The name is the parent's, and what lies at these addresses now is not the pool.
  if (is_owner_)
    shared_object::unlink(name_); // Before the lock goes, so that nobody else has to.
  for (std::uint64_t at = 0; base_ != nullptr && at < object_bytes_; at += unmap_step_bytes)
    ::munmap(base_ + at, std::min(unmap_step_bytes, object_bytes_ - at));
  if (file_ < 0)
    return;
  keep_in_children(file_);
  ::close(file_);
}

std::size_t pool_memory::remove_leftovers(const pool_memory_options& options) {
  auto removed = remove_abandoned_pools(shm_directory, "", options.name_prefix);
  if (const auto& huge = options.huge_page_directory; !huge.empty())
    removed += remove_abandoned_pools(huge, huge, options.name_prefix);
  return removed;
}

result<pool_memory> pool_memory::create(const pool_memory_options& options) {
  auto plan = layout_for(options);
  if (!plan)
    return plan.error();
  remove_leftovers(options);
  if (auto enough = check_space(options, plan->object_bytes); !enough)
    return enough.error();
  pool_memory pool;
  pool.name_ = object_name(options);
  auto file = shared_object::create_locked(pool.name_);
  if (!file && file.error().code == errc::refused)
    file = shared_object::create_locked(pool.name_);
  if (!file)
    return file.error();
  pool.file_ = *file;
  close_in_children(pool.file_);
  pool.is_owner_ = true;
  pool.owner_ = options.owner;
  pool.granules_ = plan->granules;
  pool.index_offset_ = pool_header_bytes;
  pool.index_buckets_ = plan->index_buckets;
  pool.table_offset_ = plan->table_offset;
  pool.pages_offset_ = plan->pages_offset;
  if (::ftruncate(pool.file_, static_cast<off_t>(plan->object_bytes)) != 0)
    return shared_object::failed("cannot size", pool.name_);
  if (auto mapped = pool.map(plan->object_bytes); !mapped)
    return mapped.error();
  // Before the rest, so that whoever finds what a crash leaves knows whose it is.
  if (auto number = populate(pool.file_, pool.base_, 0, pool_header_bytes); number != 0) {
    errno = number;
    return shared_object::failed("no memory for the pool (lower pool.size):", pool.name_);
  }
  auto* header = new (pool.base_) pool_header{};
  header->magic.store(unfinished_pool_magic, std::memory_order_release);
  if (auto touched = pool.pretouch(options); !touched)
    return touched.error();
  header->layout_version = pool_layout_version;
  header->granule_bytes = limits::granule_bytes;
  header->owner = options.owner;
  header->granules = plan->granules;
  header->index_buckets = plan->index_buckets;
  header->index_offset = pool.index_offset_;
  header->table_offset = pool.table_offset_;
  header->pages_offset = pool.pages_offset_;
  header->object_bytes = plan->object_bytes;
  header->magic.store(pool_magic, std::memory_order_release);
  return pool;
}

result<pool_memory> pool_memory::attach(const std::string& name, const incarnation& expected) {
  if (name.empty() || name.front() != '/')
    return {errc::invalid_argument, "a pool's name starts with a slash"};
  pool_memory pool;
  pool.name_ = name;
  pool.file_ = shared_object::open(name, O_RDWR);
  if (pool.file_ < 0)
    return shared_object::failed("cannot open", name);
  close_in_children(pool.file_);
  struct stat status {};
  if (::fstat(pool.file_, &status) != 0)
    return shared_object::failed("cannot stat", name);
  auto object_bytes = static_cast<std::uint64_t>(status.st_size);
  if (object_bytes < pool_header_bytes)
    return {errc::incompatible, name + " is not a PeerCache pool, or not ready yet"};
  if (auto mapped = pool.map(object_bytes); !mapped)
    return mapped.error();
  const auto& header = *std::launder(reinterpret_cast<const pool_header*>(pool.base_));
  if (auto fits = check_header(header, object_bytes, name); !fits)
    return fits.error();
  if (guard_on(guard::incarnation) && header.owner != expected)
    return {errc::not_found, name + " belongs to another start of the node"};
  pool.owner_ = header.owner;
  pool.granules_ = header.granules;
  pool.index_buckets_ = header.index_buckets;
  pool.index_offset_ = header.index_offset;
  pool.table_offset_ = header.table_offset;
  pool.pages_offset_ = header.pages_offset;
  return pool;
}

result<void> pool_memory::map(std::uint64_t object_bytes) {
  auto* at = ::mmap(nullptr, object_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (at == MAP_FAILED)
    return shared_object::failed("cannot map " + std::to_string(object_bytes) +
                                     " bytes (with huge pages: raise vm.nr_hugepages) of",
                                 name_);
  // A mapping holds its open file, hence the locks: a forked child's would outlive this process.
  (void)::madvise(at, object_bytes, MADV_DONTFORK);
#ifdef MADV_HUGEPAGE
  (void)::madvise(at, object_bytes, MADV_HUGEPAGE); // Taken where shmem_enabled is `advise`.
#endif
  base_ = static_cast<std::byte*>(at);
  object_bytes_ = object_bytes;
  return {};
}

result<void> pool_memory::pretouch(const pool_memory_options& options) const {
  // Without threads only header and table are touched, from here.
  auto total_bytes = options.pretouch_threads == 0 ? pages_offset_ : object_bytes_;
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failure{0};
  std::mutex progress; // Guards `done_bytes` and the callback; once per 64 MiB.
  std::uint64_t done_bytes = 0;
  auto work = [&] {
    while (failure.load() == 0) {
      auto offset = next.fetch_add(pretouch_step_bytes);
      if (offset >= total_bytes)
        return;
      auto step = std::min(pretouch_step_bytes, total_bytes - offset);
      if (auto number = populate(file_, base_, offset, step); number != 0) {
        failure.store(number);
        return;
      }
      std::lock_guard lock(progress);
      done_bytes += step;
      if (options.on_progress)
        options.on_progress(done_bytes, total_bytes);
    }
  };
  std::vector<std::thread> helpers;
  for (std::uint32_t i = 1; i < options.pretouch_threads; ++i)
    helpers.emplace_back(work);
  work();
  for (auto& helper : helpers)
    helper.join();
  if (failure.load() == 0)
    return {};
  errno = failure.load();
  return shared_object::failed("no memory for the pool (lower pool.size):", name_);
}

std::uint64_t pool_memory::page_bytes() const noexcept {
  return std::uint64_t{granules_} * limits::granule_bytes;
}

slot_table pool_memory::slots() const noexcept {
  auto* entries = std::launder(reinterpret_cast<slot_entry*>(base_ + table_offset_));
  return slot_table({entries, granules_}, {base_ + pages_offset_, page_bytes()});
}

host_index pool_memory::index() const noexcept {
  auto* buckets = std::launder(reinterpret_cast<host_index::bucket*>(base_ + index_offset_));
  return {{buckets, index_buckets_}, slots()};
}

epoch_table pool_memory::epochs() const noexcept {
  return epoch_table(*std::launder(reinterpret_cast<epoch_block*>(base_ + epoch_block_offset)));
}

std::span<std::byte> pool_memory::readable_region() const noexcept {
  return {base_ + table_offset_, object_bytes_ - table_offset_};
}

result<void> pool_memory::lock_session(std::uint32_t index) {
  PEERCACHE_ASSERT(index < sessions_max);
  if (!shared_object::try_lock(file_, session_byte + index))
    return {errc::refused,
            "session " + std::to_string(index) + " of " + name_ + " is held by another process"};
  return {};
}

bool pool_memory::session_is_dead(std::uint32_t index) const {
  PEERCACHE_ASSERT(index < sessions_max);
  return !guard_on(guard::session_lock) ||
         !shared_object::is_locked_by_another(file_, session_byte + index);
}

} // namespace peercache::storage
