// Its folders, and what a start does with the files that are there.

#include "storage/disk/file_names.hpp"
#include "storage/disk/file_scan.hpp"
#include "storage/disk/file_store.hpp"

namespace peercache::storage {

result<void> file_store::make_root() {
  const std::string root(page_files_folder);
  if (auto made = io_.make_folder(root); !made)
    return made;
  return io_.sync_folder("");
}

/// Both folders of the two levels are there, unless they cannot be; the second one is open.
result<void> file_store::prepare_folder(std::uint32_t number) {
  if (folders_[number])
    return {};
  const auto name = page_folder(number);
  auto opened = io_.open_folder(name);
  if (!opened && opened.error().code == errc::not_found) {
    parents_to_sync_ = true;
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

/// New folders are durable when their parents are.
bool file_store::sync_parents() {
  if (!parents_to_sync_)
    return true;
  const auto sync = [this](const std::string& folder) {
    const auto synced = io_.sync_folder(folder);
    return synced || synced.error().code == errc::not_found; // There may be no room for all.
  };
  bool durable = sync(std::string(page_files_folder));
  for (std::uint32_t number = 0; number < page_folders && durable; number += first_page_folders)
    durable = sync(first_page_folder(number));
  parents_to_sync_ = !durable;
  return durable;
}

result<recovery_report> file_store::recover(const recovery_options& options,
                                            const std::function<void(const disk_page&)>& found) {
  if (auto made = make_root(); !made)
    return made.error();
  auto scanned = file_scan(io_, options_.owner, options).run();
  if (!scanned)
    return scanned.error();
  for (const auto& file : scanned->to_remove)
    (void)io_.remove(file); // Nobody asks for it, and the next start tries again.
  parents_to_sync_ = true;  // A process that was killed may have left them not durable.
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
