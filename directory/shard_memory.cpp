#include "directory/shard_memory.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <new>
#include <sys/mman.h>

namespace peercache::directory {

namespace {

/// Memory is added in pieces of at least `piece_units`, and of an eighth of what there is, so that
/// there are few pieces (each is registered with a device by itself), and little that is unused.
constexpr std::uint64_t rounded_up(std::uint64_t units) noexcept {
  return (units + piece_units - 1) / piece_units * piece_units;
}
static_assert(piece_units * shard_unit_bytes % (64u << 10) == 0, "pieces are whole pages");

} // namespace

shard_memory::shard_memory(std::uint64_t units_max, int file)
    : reserved_(rounded_up(units_max)), file_(file) {
  PEERCACHE_ASSERT(reserved_ <= std::numeric_limits<unit_number>::max());
  auto* const range = ::mmap(nullptr, reserved_ * shard_unit_bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    throw std::bad_alloc();
  base_ = static_cast<shard_unit*>(range);
}

shard_memory::shard_memory(shard_memory&& from) noexcept
    : base_(std::exchange(from.base_, nullptr)), reserved_(std::exchange(from.reserved_, 0)),
      committed_(std::exchange(from.committed_, 0)), used_(std::exchange(from.used_, 0)),
      shared_(std::exchange(from.shared_, 0)), file_(std::exchange(from.file_, -1)),
      tell_(std::move(from.tell_)) {}

shard_memory& shard_memory::operator=(shard_memory&& from) noexcept {
  if (this != &from) {
    release();
    base_ = std::exchange(from.base_, nullptr);
    reserved_ = std::exchange(from.reserved_, 0);
    committed_ = std::exchange(from.committed_, 0);
    used_ = std::exchange(from.used_, 0);
    shared_ = std::exchange(from.shared_, 0);
    file_ = std::exchange(from.file_, -1);
    tell_ = std::move(from.tell_);
  }
  return *this;
}

shard_memory::~shard_memory() {
  release();
}

void shard_memory::release() noexcept {
  if (base_ != nullptr)
    ::munmap(base_, reserved_ * shard_unit_bytes);
}

unit_number shard_memory::allocate(std::uint64_t count) {
  PEERCACHE_ASSERT(count > 0);
  if (count > reserved_ - used_)
    throw std::bad_alloc();
  if (used_ + count > committed_)
    commit(used_ + count);
  return static_cast<unit_number>(std::exchange(used_, used_ + count));
}

void shard_memory::commit(std::uint64_t units) {
  const auto wanted = rounded_up(std::max(units, committed_ + committed_ / 8));
  const auto piece = std::min(wanted, reserved_) - committed_;
  auto* const begin = base_ + committed_;
  if (!share(piece) && ::mprotect(begin, piece * shard_unit_bytes, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  committed_ += piece;
  if (tell_)
    tell_(std::as_writable_bytes(std::span{begin, piece}));
}

/// Lets the next piece lie in the file. False: it cannot, and no further piece will.
bool shard_memory::share(std::uint64_t piece) noexcept {
  if (file_ < 0)
    return false;
  const auto offset = static_cast<off_t>(committed_ * shard_unit_bytes);
  const auto bytes = piece * shard_unit_bytes;
  // Room is taken here: a write to a page that the file system has no room for would end the
  // process.
  int failed = 0;
  do
    failed = ::fallocate(file_, 0, offset, static_cast<off_t>(bytes)) != 0 ? errno : 0;
  while (failed == EINTR);
  if (failed == 0 && ::mmap(base_ + committed_, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED, file_, offset) == MAP_FAILED)
    failed = errno;
  if (failed != 0) {
    log::warn("directory: {} more bytes of the shard are not shared with other processes, which "
              "ask for what lies there: {}",
              bytes, std::strerror(failed));
    file_ = -1;
    return false;
  }
  shared_ = committed_ + piece;
  return true;
}

void shard_memory::on_grown(grown tell) {
  tell_ = std::move(tell);
  if (tell_ && committed_ > 0)
    tell_(std::as_writable_bytes(std::span{base_, committed_}));
}

} // namespace peercache::directory
