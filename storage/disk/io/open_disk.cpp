#include "storage/disk/io/disk_io.hpp"
#include "storage/disk/io/open_folder.hpp"
#include "storage/disk/io/posix_disk_io.hpp"
#include "storage/disk/io/uring_disk_io.hpp"

namespace peercache::storage {

result<opened_disk> open_disk(const std::string& folder, std::uint32_t queue_depth) {
  auto opened = open_folder(folder);
  if (!opened)
    return opened.error();
  auto ring = uring_disk_io::make(*opened, queue_depth);
  if (ring)
    return opened_disk{std::move(*ring), {}};
  return opened_disk{std::make_unique<posix_disk_io>(std::move(*opened), queue_depth),
                     ring.error().message};
}

} // namespace peercache::storage
