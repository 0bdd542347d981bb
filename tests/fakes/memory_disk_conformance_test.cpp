// Runs the tests that every disk_io must pass on the memory disk of tests.

#include "tests/fakes/memory_disk_io.hpp"
#include "tests/storage/disk/io/disk_io_conformance.hpp"
#include "tests/storage/disk/io/disk_io_folder_conformance.hpp"

namespace peercache::storage {
namespace {

enum class weather { calm, rough };

/// Makes a rig with a memory disk. With weather `rough` every transfer is late and done in pieces.
template <weather how>
std::unique_ptr<disk_io_rig> make(std::string&) {
  struct rig final : disk_io_rig {
    std::unique_ptr<disk_io> open(std::uint32_t queue_depth) override {
      memory_disk_options options;
      options.queue_depth = queue_depth;
      auto io = std::make_unique<memory_disk_io>(options);
      if (how == weather::rough) {
        for (const auto what : {disk_operation::read, disk_operation::write, disk_operation::sync})
          io->set_delay(what, std::chrono::milliseconds(1), std::chrono::milliseconds(500));
        io->set_short_transfers(1);
      }
      return io;
    }
  };
  return std::make_unique<rig>();
}

/// Makes a rig with a memory disk that runs by the computer's clock, as threads need it.
std::unique_ptr<disk_io_rig> make_in_real_time(std::string&) {
  struct rig final : disk_io_rig {
    std::unique_ptr<disk_io> open(std::uint32_t queue_depth) override {
      memory_disk_options options;
      options.queue_depth = queue_depth;
      options.real_time = true;
      return std::make_unique<memory_disk_io>(options);
    }
  };
  return std::make_unique<rig>();
}

INSTANTIATE_TEST_SUITE_P(over, disk_io_conformance,
                         testing::Values(disk_io_version{"memory", make<weather::calm>},
                                         disk_io_version{"rough_memory", make<weather::rough>},
                                         disk_io_version{"memory_in_real_time", make_in_real_time}),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace peercache::storage
