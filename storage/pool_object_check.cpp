#include "storage/pool_memory.hpp"

#include "storage/shared_object.hpp"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::storage {
namespace {

error gone(const std::string& name) {
  return {errc::not_found,
          name + " is gone: another program has removed it (systemd does so with RemoveIPC=yes "
                 "when its user logs out), so clients of this host cannot map the pool; restart "
                 "the node"};
}

/// Whether the name leads to the same object as the open file. False also when no object has the
/// name or it may not be opened; true when the kernel does not tell, for instance without a free
/// descriptor.
bool leads_to(const std::string& name, const struct stat& own) {
  const int found = shared_object::open(name, O_RDWR);
  if (found < 0)
    return errno != ENOENT && errno != EACCES;
  struct stat named {};
  const bool same =
      ::fstat(found, &named) == 0 && named.st_dev == own.st_dev && named.st_ino == own.st_ino;
  ::close(found);
  return same;
}

} // namespace

result<void> pool_memory::check_object() const {
  struct stat own {};
  if (::fstat(file_, &own) != 0)
    return shared_object::failed("cannot stat", name_);
  if (static_cast<std::uint64_t>(own.st_size) < layout_.object_bytes)
    // The header itself may be cut off: reading it would raise SIGBUS.
    return {errc::incompatible, name_ + " was made shorter by another program; restart the node"};
  if (!leads_to(name_, own))
    return gone(name_);
  if (own.st_uid != ::geteuid() || !shared_object::is_shared_with(own, group_))
    return {errc::refused, name_ +
                               " has another owner or mode now than the node gave it, so clients "
                               "refuse it; restart the node"};
  const auto& header = *std::launder(reinterpret_cast<const pool_header*>(base_));
  const auto layout = read_layout(header, layout_.object_bytes, name_);
  if (!layout || *layout != layout_ || header.owner != owner_ ||
      header.first_session % sessions_max != first_session_)
    return {errc::incompatible,
            name_ + ": its header is damaged, another program has written to it, so "
                    "clients refuse it; restart the node"};
  return {};
}

} // namespace peercache::storage
