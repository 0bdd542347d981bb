#pragma once

#include "storage/disk/disk_store.hpp"
#include "storage/disk/file_per_key/file_names.hpp"
#include "storage/disk/page_check.hpp"
#include "storage/disk/record_table.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace peercache::storage {

/// The pages that a start found in the folders of a store with a file per key, and counts.
struct file_scan_result {
  std::vector<record_table::entry> records;
  std::vector<std::string> to_remove; ///< Files of ours that are no pages.
  recovery_report report;
  std::uint64_t last_sequence = 0;
  std::optional<error> failure; ///< A folder could not be read.
};

/// Lists all folders and reads each file's header; several threads share the folders. A thread
/// waits for the device with every file that is not cached, so there are many to each that was
/// allowed.
class file_scan {
public:
  file_scan(const disk_io& io, const record_owner& owner, const recovery_options& options)
      : io_(io), owner_(owner), options_(options) {}

  /// Records are sorted by sequence. Errors: a folder cannot be read.
  result<file_scan_result> run();

private:
  void work(file_scan_result& part);
  result<void> scan_folder(std::uint32_t folder, file_scan_result& part, page_verifier& verifier);
  void scan_file(const disk_file_head& file, std::uint32_t folder, file_scan_result& part,
                 page_verifier& verifier);
  /// Notes that so much of this folder is read, with so many pages more than at the last call.
  void tell_progress(std::uint32_t folder, double share, std::uint64_t pages);

  const disk_io& io_;
  const record_owner owner_;
  const recovery_options& options_;
  std::atomic<std::uint32_t> next_folder_{0};
  std::atomic<bool> failed_{false};
  std::mutex progress_mutex_; ///< `progress` is called by one thread at a time.
  std::uint64_t pages_ = 0;
  std::array<double, page_folders> shares_{}; ///< The share of each folder that is read by now.
};

} // namespace peercache::storage
