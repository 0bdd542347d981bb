// How a file_store makes and opens its folders, and what it does at a start with the files in them.

#include "storage/disk/file_per_key/file_names.hpp"
#include "storage/disk/file_per_key/file_scan.hpp"
#include "storage/disk/file_per_key/file_store.hpp"

namespace peercache::storage {

result<void> file_store::make_root() {
  const std::string root(page_files_folder);
  if (auto made = io_.make_folder(root); !made)
    return made;
  return io_.sync_folder("");
}

/// Opens the page folder of this number; makes it and the folder around it where they are missing.
result<void> file_store::prepare_folder(std::uint32_t number) {
  if (folders_[number])
    return {};
  const auto name = page_folder(number);
  auto opened = io_.open_folder(name);
  if (!opened && opened.error().code == errc::not_found) {
    root_to_sync_ = true;
    parents_to_sync_.set(number / first_page_folders);
    if (auto made = io_.make_folder(first_page_folder(number)); !made)
      return made;
    if (auto made = io_.make_folder(name); !made)
      return made;
    opened = io_.open_folder(name);
  }
  if (!opened)
    return opened.error();
  folders_[number] = *opened;
  return {};
}

/// Makes new folders durable by syncing the folders that they lie in.
bool file_store::sync_parents() {
  const auto sync = [this](const std::string& folder) {
    const auto synced = io_.sync_folder(folder);
    // A folder that is missing needs no sync: a full disk may lack some folders.
    return synced || synced.error().code == errc::not_found;
  };
  if (root_to_sync_ && !sync(std::string(page_files_folder)))
    return false;
  root_to_sync_ = false;
  for (std::uint32_t first = 0; first < first_page_folders; ++first) {
    if (!parents_to_sync_[first])
      continue;
    if (!sync(first_page_folder(first * first_page_folders)))
      return false;
    parents_to_sync_.reset(first);
  }
  return true;
}

result<recovery_report> file_store::recover(const recovery_options& options,
                                            const std::function<void(const disk_page&)>& found) {
  if (auto made = make_root(); !made)
    return made.error();
  auto scanned = file_scan(io_, options_.owner, options).run();
  if (!scanned)
    return scanned.error();
  for (const auto& file : scanned->to_remove)
    // An error is ignored: no key names this file, and the next start tries to remove it again.
    (void)io_.remove(file);
  // A process that was killed may have left folders that are not durable, so all of them are
  // synced.
  root_to_sync_ = true;
  parents_to_sync_.set();
  (void)sync_parents();
  for (const auto& record : scanned->records) {
    table_.insert(record);
    used_bytes_ += file_bytes(record.page.length_bytes);
    found(record.page);
  }
  next_sequence_ = scanned->last_sequence + 1;
  return scanned->report;
}

} // namespace peercache::storage
