// How a client maps the pool of its host's node, and the locks that say which clients live.

#include "storage/pool_memory.hpp"

#include "common/assert.hpp"
#include "common/forks.hpp"
#include "common/guards.hpp"
#include "storage/pool_header.hpp"
#include "storage/pool_layout.hpp"
#include "storage/shared_object.hpp"

#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

constexpr std::uint64_t session_byte = 4096;

/// Opens the object that has this name read-only. Errors: it is another one than `known`.
result<int> open_to_read(const std::string& name, const struct stat& known) {
  const int file = shared_object::open(name, O_RDONLY);
  struct stat found {};
  if (file < 0 || ::fstat(file, &found) != 0) {
    const auto why = shared_object::failed("cannot read", name);
    if (file >= 0)
      ::close(file);
    return why;
  }
  if (found.st_dev == known.st_dev && found.st_ino == known.st_ino)
    return file;
  ::close(file);
  return error{errc::not_found, name + " is another object now"};
}

} // namespace

result<pool_memory> pool_memory::attach(const std::string& name, const incarnation& expected,
                                        std::optional<gid_t> group) {
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
  if (!shared_object::may_be_mapped(status, group))
    return {errc::refused, name +
                               " is another user's, or others may use it: who has it reads and "
                               "changes all pages; run node and client as the same user, or give "
                               "node.group and, to clients, PEERCACHE_NODE_GROUP"};
  auto object_bytes = static_cast<std::uint64_t>(status.st_size);
  if (object_bytes < pool_header_bytes)
    return {errc::incompatible, name + " is not a PeerCache pool, or not ready yet"};
  const auto reader = open_to_read(name, status);
  if (!reader)
    return reader.error();
  const auto mapped = pool.map(object_bytes, *reader, access::read);
  ::close(*reader);
  if (!mapped)
    return mapped.error();
  const auto& header = *std::launder(reinterpret_cast<const pool_header*>(pool.base_));
  auto layout = read_layout(header, object_bytes, name);
  if (!layout)
    return layout.error();
  if (guard_on(guard::incarnation) && header.owner != expected)
    return {errc::not_found, name + " belongs to another start of the node"};
  pool.owner_ = header.owner;
  pool.layout_ = *layout;
  pool.first_session_ = header.first_session % sessions_max;
  if (auto writable = pool.map_what_clients_write(); !writable)
    return writable.error();
  return pool;
}

/// Maps what clients write over the read-only mapping, of which header and slot table remain. The
/// file behind these was opened to be read only, so mprotect cannot make them writable.
result<void> pool_memory::map_what_clients_write() {
  const auto map = [this](std::uint64_t from, std::uint64_t to) {
    return ::mmap(base_ + from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
                  static_cast<off_t>(from)) != MAP_FAILED;
  };
  if (!map(layout_.index_offset, layout_.table_offset) ||
      !map(layout_.pages_offset, layout_.object_bytes))
    return shared_object::failed("cannot map the writable parts of", name_);
  advise();
  return {};
}

std::uint64_t pool_memory::lock_of(std::uint32_t session) const noexcept {
  PEERCACHE_ASSERT(session < sessions_per_owner);
  return session_byte + first_session_ + session;
}

result<void> pool_memory::lock_session(std::uint32_t index) {
  if (index >= sessions_per_owner)
    return {errc::refused, name_ + " has no session " + std::to_string(index)};
  if (file_ < 0)
    return {errc::refused, "this mapping of " + name_ + " holds another session"};
  if (!shared_object::try_lock(file_, lock_of(index)))
    return {errc::refused,
            "session " + std::to_string(index) + " of " + name_ + " is held by another process"};
  // The writable mapping keeps the open file, and so the lock, which belongs to that and not to a
  // descriptor. Without a descriptor no call of this process with a wrong number meets the object.
  close_file();
  return {};
}

bool pool_memory::session_is_dead(std::uint32_t index) const {
  return !guard_on(guard::session_lock) ||
         !shared_object::is_locked_by_another(file_, lock_of(index));
}

bool pool_memory::session_is_held(std::uint32_t index) const {
  return shared_object::is_locked_by_another(file_, lock_of(index));
}

bool pool_memory::former_clients_are_dead() const {
  if (!guard_on(guard::session_lock))
    return true;
  const auto held = [this](std::uint32_t from, std::uint32_t to) {
    return from < to && shared_object::is_locked_by_another(file_, session_byte + from, to - from);
  };
  return !held(0, first_session_) && !held(first_session_ + sessions_per_owner, sessions_max);
}

} // namespace peercache::storage
