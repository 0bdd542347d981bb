#pragma once

#include "storage/disk/io/disk_io.hpp"
#include "storage/disk/io/open_folder.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace peercache::storage {

/// The base of the `disk_io` versions over a real file system: all but the transfers.
///
/// Every name is looked up from the descriptor of the tier's folder, or of a folder below it that
/// is open, and symbolic links are not followed. Files are opened with O_DIRECT when the file
/// system takes it, otherwise without.
class folder_disk_io : public disk_io {
public:
  ~folder_disk_io() override;
  folder_disk_io(const folder_disk_io&) = delete;
  folder_disk_io& operator=(const folder_disk_io&) = delete;

  result<disk_file> create(const std::string& file, std::uint64_t bytes) override;
  result<disk_file> open(const std::string& file) override;
  result<disk_file> open_folder(const std::string& folder) override;
  void close(disk_file file) override;
  result<void> truncate(disk_file file, std::uint64_t bytes) override;
  result<std::uint64_t> bytes_of(disk_file file) override;
  result<void> rename(const std::string& from, const std::string& to) override;
  result<void> remove(const std::string& file) override;
  result<void> make_folder(const std::string& folder) override;
  result<void> sync_folder(const std::string& folder) override;
  /// Lists files and folders only, neither links nor other special files.
  result<std::vector<disk_folder_entry>> list(const std::string& folder) const override;
  result<disk_space> space() const override;
  result<std::size_t> read_now(const std::string& file, std::uint64_t offset_bytes,
                               std::span<std::byte> into) const override;
  result<void> read_heads(const std::string& folder, std::size_t head_bytes,
                          const std::function<void(const disk_file_head&)>& visit) const override;

  /// Whether files are opened with O_DIRECT.
  bool direct() const noexcept { return folder_.direct; }

protected:
  explicit folder_disk_io(opened_folder folder) : folder_(std::move(folder)) {}

  /// Tells a derived class that a file or folder was opened, with its descriptor, or is about to be
  /// closed.
  virtual void on_open(disk_file, int) {}
  virtual void on_close(disk_file) {}

  /// Asserts what `disk_io::submit` demands of a request.
  void check(const disk_request& request) const;
  int fd_of(disk_file file) const;
  void count_request(disk_file file) { ++open_[file.value].requests; }
  void count_completion(disk_file file) { --open_[file.value].requests; }

private:
  struct open_file {
    owned_fd fd;
    bool folder = false;
    std::uint32_t requests = 0; ///< Requests for the file that have not completed.
  };

  /// The place of a name: a descriptor of the folder that it lies in, and its last part.
  struct place {
    owned_fd walked;
    int folder = -1;
    std::string last;
    explicit operator bool() const noexcept { return folder >= 0; }
  };

  /// The place of a name, found by a walk from the tier's folder. Threads: any.
  place walk_to(const std::string& name) const;
  /// The place of a name, without a walk where its folder was opened by `open_folder`. Threads: the
  /// owner's.
  place place_of(const std::string& name) const;
  result<disk_file> keep_open(owned_fd fd, bool folder = false);
  owned_fd open_at(int folder, const std::string& file, int flags) const;

  opened_folder folder_;
  std::vector<open_file> open_;
  std::map<std::string, disk_file, std::less<>> open_folders_;
};

} // namespace peercache::storage
