// Runs the conformance suite of disk_io over a real file system: with io_uring and with blocking
// calls, with O_DIRECT and without.

#include "storage/disk/io/posix_disk_io.hpp"
#include "storage/disk/io/uring_disk_io.hpp"
#include "tests/storage/device/device_folder.hpp"
#include "tests/storage/disk/io/disk_io_conformance.hpp"
#include "tests/storage/disk/io/disk_io_folder_conformance.hpp"

namespace peercache::storage {
namespace {

enum class caching { direct, buffered };

template <class Make>
struct device_rig final : disk_io_rig {
  std::unique_ptr<disk_io> open(std::uint32_t queue_depth) override {
    auto opened = open_folder(folder.path());
    EXPECT_TRUE(opened);
    if (how == caching::buffered)
      opened->direct = false;
    return make(std::move(*opened), queue_depth);
  }

  device_folder folder;
  caching how = caching::direct;
  Make make;
};

std::unique_ptr<disk_io> make_ring(opened_folder folder, std::uint32_t queue_depth) {
  auto made = uring_disk_io::make(folder, queue_depth);
  return made ? std::move(*made) : nullptr;
}

std::unique_ptr<disk_io> make_blocking(opened_folder folder, std::uint32_t queue_depth) {
  return std::make_unique<posix_disk_io>(std::move(folder), queue_depth);
}

using maker = std::unique_ptr<disk_io> (*)(opened_folder, std::uint32_t);

template <maker make, caching how>
std::unique_ptr<disk_io_rig> make_rig(std::string& why) {
  auto rig = std::make_unique<device_rig<maker>>();
  rig->how = how;
  rig->make = make;
  auto opened = open_folder(rig->folder.path());
  if (!opened) {
    why = opened.error().message;
    return nullptr;
  }
  if (how == caching::direct && !opened->direct) {
    why = "the file system of the build folder takes no O_DIRECT";
    return nullptr;
  }
  if (make == &make_ring) {
    const auto ring = uring_disk_io::make(*opened, 1);
    if (!ring) {
      why = ring.error().message;
      return nullptr;
    }
  }
  return rig;
}

INSTANTIATE_TEST_SUITE_P(
    over, disk_io_conformance,
    testing::Values(disk_io_version{"io_uring", make_rig<make_ring, caching::direct>},
                    disk_io_version{"io_uring_buffered", make_rig<make_ring, caching::buffered>},
                    disk_io_version{"posix", make_rig<make_blocking, caching::direct>},
                    disk_io_version{"posix_buffered", make_rig<make_blocking, caching::buffered>}),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace peercache::storage
