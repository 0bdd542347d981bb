#include "storage/pool_memory.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/limits.hpp"
#include "storage/pool_header.hpp"
#include "storage/pool_layout.hpp"
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
#include <span>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::storage {
namespace {

/// Threads touch the pool in steps of this many bytes, or of one page of the kernel if that is
/// larger: two threads never wait for the same page.
constexpr std::uint64_t prefault_step_bytes = 64u << 20;
constexpr std::size_t node_name_in_object_name_max = 100;
/// A mapping is unmapped in pieces of this many bytes: while a piece is unmapped, no other thread
/// of the process can map or unmap anything.
constexpr std::uint64_t unmap_step_bytes = 64u << 20;

std::string reserve_advice(std::uint64_t page_bytes, std::uint64_t needed_bytes) {
  return "the pool takes " + std::to_string(needed_bytes / page_bytes) +
         " free huge pages: raise /sys/kernel/mm/hugepages/hugepages-" +
         std::to_string(page_bytes >> 10) +
         "kB/nr_hugepages, or lower pool.size, or switch pool.huge_pages off";
}

/// Whether the folder has huge pages of the wanted size.
result<void> check_huge_pages(const pool_memory_options& options, const struct statfs& status) {
  const auto& where = options.huge_page_directory;
  const auto wanted_mib = std::to_string(options.huge_page_bytes >> 20);
  const bool is_one = status.f_type == HUGETLBFS_MAGIC;
  if (is_one && static_cast<std::uint64_t>(status.f_bsize) == options.huge_page_bytes)
    return {};
  const auto found = is_one ? " has huge pages of " + std::to_string(status.f_bsize >> 20) +
                                  " MiB, not of " + wanted_mib + " MiB (pool.huge_pages)"
                            : std::string(" is not a hugetlbfs mount");
  return {errc::invalid_argument, where + found +
                                      "; mount one (mount -t hugetlbfs -o pagesize=" + wanted_mib +
                                      "M none " + where + ") or switch pool.huge_pages off"};
}

result<void> check_space(const pool_memory_options& options, std::uint64_t needed_bytes) {
  auto huge = !options.huge_page_directory.empty();
  std::string where = huge ? options.huge_page_directory : shared_object::posix_directory;
  struct statfs status {};
  if (::statfs(where.c_str(), &status) != 0)
    return shared_object::failed("cannot use", where);
  if (huge)
    if (auto fits = check_huge_pages(options, status); !fits)
      return fits;
  auto free_bytes =
      static_cast<std::uint64_t>(status.f_bavail) * static_cast<std::uint64_t>(status.f_bsize);
  // A tmpfs without a size limit reports no blocks, so its free bytes say nothing.
  if (status.f_blocks != 0 && free_bytes < needed_bytes)
    return {errc::out_of_memory,
            where + " has " + std::to_string(free_bytes) + " bytes free, the pool needs " +
                std::to_string(needed_bytes) +
                (huge ? "; " + reserve_advice(options.huge_page_bytes, needed_bytes)
                      : "; enlarge it (mount -o remount,size=...) or lower pool.size")};
  return {};
}

/// The size of the huge pages behind a file, of which a mapping is only cut at whole ones; 0: it
/// has none.
std::uint64_t page_bytes_of(int file) {
  struct statfs status {};
  return ::fstatfs(file, &status) == 0 && status.f_type == HUGETLBFS_MAGIC
             ? static_cast<std::uint64_t>(status.f_bsize)
             : 0;
}

/// Gives memory to a range of the object; when the host has none this fails instead of raising
/// SIGBUS. Returns 0 or an errno.
int populate(int file, std::byte* base, std::uint64_t offset, std::uint64_t size_bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(base + offset, size_bytes, MADV_POPULATE_WRITE) == 0)
    return 0;
  if (errno != EINVAL)
    // MADV_POPULATE_WRITE answers EFAULT where a touch would have raised SIGBUS.
    return errno == EFAULT ? ENOMEM : errno;
#endif
  // For kernels before Linux 5.14: first the file gets memory, then touches put it into this
  // process's page tables.
  if (::fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(size_bytes)) != 0)
    return errno;
  for (std::uint64_t at = offset; at < offset + size_bytes; at += limits::granule_bytes)
    std::atomic_ref(base[at]).store(std::byte{0}, std::memory_order_relaxed);
  return 0;
}

} // namespace

std::string pool_memory_options::object_name_start() const {
  auto node = node_name.substr(0, node_name_in_object_name_max);
  for (auto& c : node)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-')
      c = '_';
  return name_prefix + "-" + node + "-";
}

std::string pool_memory_options::object_name() const {
  return huge_page_directory + "/" + object_name_start() + to_string(owner);
}

std::uint64_t pool_memory_options::maker() const {
  const auto names = cluster_name + '\0' + node_name;
  return checksum_of(std::as_bytes(std::span(names)));
}

pool_memory::pool_memory(pool_memory&& other) noexcept {
  *this = std::move(other);
}

pool_memory& pool_memory::operator=(pool_memory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(owner_, other.owner_);
  std::swap(base_, other.base_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(unmap_step_bytes_, other.unmap_step_bytes_);
  std::swap(layout_, other.layout_);
  std::swap(first_session_, other.first_session_);
  std::swap(group_, other.group_);
  std::swap(file_, other.file_);
  std::swap(is_owner_, other.is_owner_);
  std::swap(outlives_, other.outlives_);
  std::swap(home_, other.home_);
  return *this;
}

pool_memory::~pool_memory() {
  release();
}

void pool_memory::release() noexcept {
  if (!home_.is_here())
    // In a forked child the name is still the parent's, and what lies at these addresses is not the
    // pool.
    return;
  if (is_owner_ && !outlives_)
    // The name goes before the lock: an object with a name and without a lock would be taken for a
    // leftover.
    shared_object::unlink(name_);
  for (std::uint64_t at = 0; base_ != nullptr && at < mapped_bytes_; at += unmap_step_bytes_)
    ::munmap(base_ + at, std::min(unmap_step_bytes_, mapped_bytes_ - at));
  close_file();
}

void pool_memory::close_file() noexcept {
  if (file_ < 0)
    return;
  close_noted(file_);
  file_ = -1;
}

std::size_t pool_memory::remove_leftovers(const pool_memory_options& options) {
  auto removed = remove_abandoned_pools(shared_object::posix_directory, "", options.name_prefix);
  if (const auto& huge = options.huge_page_directory; !huge.empty())
    removed += remove_abandoned_pools(huge, huge, options.name_prefix);
  return removed;
}

result<pool_memory> pool_memory::create(const pool_memory_options& options) {
  auto plan = plan_layout(options.size_bytes, options.huge_page_bytes);
  if (!plan)
    return plan.error();
  remove_leftovers(options);
  if (auto enough = check_space(options, plan->object_bytes); !enough)
    return enough.error();
  pool_memory pool;
  pool.name_ = options.object_name();
  auto file = shared_object::create_locked(pool.name_);
  if (!file && file.error().code == errc::refused)
    file = shared_object::create_locked(pool.name_);
  if (!file)
    return file.error();
  pool.file_ = *file;
  close_in_children(pool.file_);
  pool.is_owner_ = true;
  pool.owner_ = options.owner;
  pool.layout_ = *plan;
  pool.group_ = options.group;
  if (auto shared = shared_object::share_with(pool.file_, pool.name_, options.group); !shared)
    return shared.error();
  if (::ftruncate(pool.file_, static_cast<off_t>(plan->object_bytes)) != 0)
    return shared_object::failed("cannot size", pool.name_);
  if (auto mapped = pool.map(plan->object_bytes, pool.file_, access::write); !mapped)
    return mapped.error();
  // The header is touched and written first, so that whoever finds the object after a crash knows
  // whose it is.
  if (auto number = populate(pool.file_, pool.base_, 0, pool_header_bytes); number != 0) {
    errno = number;
    return shared_object::failed("no memory for the pool (lower pool.size):", pool.name_);
  }
  auto* header = new (pool.base_) pool_header{};
  header->prefix = digest_of_prefix(options.name_prefix);
  header->magic.store(unfinished_pool_magic, std::memory_order_release);
  if (auto touched = pool.prefault(options); !touched)
    return touched.error();
  write_layout(*header, *plan);
  header->owner = options.owner;
  header->maker = options.maker();
  header->magic.store(pool_magic, std::memory_order_release);
  return pool;
}

result<void> pool_memory::map(std::uint64_t object_bytes, int file, access rights) {
  const int protection = rights == access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  const auto page_bytes = page_bytes_of(file);
  auto* at = ::mmap(nullptr, object_bytes, protection, MAP_SHARED, file, 0);
  if (at == MAP_FAILED && errno == ENOMEM && page_bytes != 0)
    return {errc::out_of_memory,
            "cannot map " + name_ + ": " + reserve_advice(page_bytes, object_bytes)};
  if (at == MAP_FAILED)
    return shared_object::failed("cannot map " + std::to_string(object_bytes) + " bytes of", name_);
  base_ = static_cast<std::byte*>(at);
  mapped_bytes_ = object_bytes;
  unmap_step_bytes_ = std::max(unmap_step_bytes, page_bytes);
  advise();
  return {};
}

void pool_memory::advise() const noexcept {
  // A mapping holds its open file, and so the locks: without DONTFORK a forked child would keep the
  // locks when this process is gone.
  (void)::madvise(base_, mapped_bytes_, MADV_DONTFORK);
#ifdef MADV_HUGEPAGE
  // This advice has an effect only where shmem_enabled is `advise`.
  (void)::madvise(base_, mapped_bytes_, MADV_HUGEPAGE);
#endif
}

result<void> pool_memory::prefault(const pool_memory_options& options) const {
  // With `prefault_threads` 0 only the parts in front of the pages are touched here.
  auto total_bytes = options.prefault_threads == 0 ? layout_.pages_offset : layout_.object_bytes;
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failure{0};
  const auto step_bytes = std::max(prefault_step_bytes, options.huge_page_bytes);
  std::mutex progress; // Guards `done_bytes` and the callback; taken once per step.
  std::uint64_t done_bytes = 0;
  auto work = [&] {
    while (failure.load() == 0) {
      auto offset = next.fetch_add(step_bytes);
      if (offset >= total_bytes)
        return;
      auto step = std::min(step_bytes, total_bytes - offset);
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
  for (std::uint32_t i = 1; i < options.prefault_threads; ++i)
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
  return std::uint64_t{layout_.granules} * limits::granule_bytes;
}

slot_table pool_memory::slots() const noexcept {
  auto* entries = std::launder(reinterpret_cast<slot_entry*>(base_ + layout_.table_offset));
  auto* clients = std::launder(reinterpret_cast<client_entry*>(base_ + layout_.clients_offset));
  return slot_table({entries, layout_.granules}, {clients, layout_.granules},
                    {base_ + layout_.pages_offset, page_bytes()});
}

host_index pool_memory::index() const noexcept {
  auto* buckets = std::launder(reinterpret_cast<host_index::bucket*>(base_ + layout_.index_offset));
  return {{buckets, layout_.index_buckets}, slots()};
}

epoch_table pool_memory::epochs() const noexcept {
  return epoch_table(*std::launder(reinterpret_cast<epoch_block*>(base_ + epoch_block_offset)));
}

hold_table pool_memory::holds() const noexcept {
  auto& header = *std::launder(reinterpret_cast<pool_header*>(base_));
  auto* block = std::launder(reinterpret_cast<hold_block*>(base_ + layout_.holds_offset));
  auto* words = std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(
      base_ + layout_.holds_offset + sizeof(hold_block)));
  return {header.held_granules_max, *block, {words, layout_.granules}};
}

pool_note pool_memory::note() const noexcept {
  return pool_note(*std::launder(reinterpret_cast<note_block*>(base_ + note_offset)));
}

std::span<std::byte> pool_memory::readable_region() const noexcept {
  return {base_ + layout_.table_offset, layout_.object_bytes - layout_.table_offset};
}

result<void> pool_memory::make_anew(slot_id slot, std::uint32_t granules) {
  const auto from = layout_.pages_offset + std::uint64_t{slot.value} * limits::granule_bytes;
  const auto bytes = std::uint64_t{granules} * limits::granule_bytes;
  PEERCACHE_ASSERT(from + bytes <= layout_.object_bytes);
  shared_object::punch_hole(file_, from, from + bytes);
  if (auto number = populate(file_, base_, from, bytes); number != 0) {
    errno = number;
    return shared_object::failed("no memory for the pool (lower pool.size):", name_);
  }
  return {};
}

} // namespace peercache::storage
