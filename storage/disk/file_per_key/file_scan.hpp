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

/// The pages that a scan found in the folders of a file_store, and what else it counted.
struct file_scan_result {
  std::vector<record_table::entry> records;
  /// Files of the store that have to be removed: unfinished writes, and damaged or foreign records.
  std::vector<std::string> to_remove;
  recovery_report report;
  std::uint64_t last_sequence = 0;
  std::optional<error> failure; ///< Set when a folder could not be read.
};

/// Lists all folders of a file_store and reads each file's header; several threads share the
/// folders. A thread waits for the device with every file that is not cached, so the scan runs more
/// threads than it was allowed to keep busy (`options.waiting_threads` for each), unless it
/// verifies.
class file_scan {
public:
  file_scan(const disk_io& io, const record_owner& owner, const recovery_options& options)
      : io_(io), owner_(owner), options_(options) {}

  /// Scans all folders. The records are sorted by their sequence. Errors: a folder cannot be read.
  result<file_scan_result> run();

private:
  void work(file_scan_result& part);
  result<void> scan_folder(std::uint32_t folder, file_scan_result& part, page_verifier& verifier);
  void scan_file(const disk_file_head& file, std::uint32_t folder, file_scan_result& part,
                 page_verifier& verifier);
  /// Reports the share of this folder that is read by now, and the pages found since the last call.
  void tell_progress(std::uint32_t folder, double share, std::uint64_t pages);

  const disk_io& io_;
  const record_owner owner_;
  const recovery_options& options_;
  std::atomic<std::uint32_t> next_folder_{0};
  std::atomic<bool> failed_{false};
  /// Held while `progress` is called, so that one thread at a time calls it.
  std::mutex progress_mutex_;
  std::uint64_t pages_ = 0;
  std::array<double, page_folders> shares_{}; ///< How much of each folder is read by now, 0 to 1.
};

} // namespace peercache::storage
