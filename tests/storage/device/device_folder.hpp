#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace peercache::storage {

/// A new folder beside the test program, because /tmp may be in memory and not on a disk. The
/// destructor removes the folder.
class device_folder {
public:
  device_folder() {
    static std::atomic<unsigned> made{0};
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    path_ = beside / ("disk." + std::to_string(::getpid()) + "." + std::to_string(made++));
    std::filesystem::create_directories(path_);
  }
  ~device_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  device_folder(const device_folder&) = delete;
  device_folder& operator=(const device_folder&) = delete;

  std::string path() const { return path_.string(); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

} // namespace peercache::storage
