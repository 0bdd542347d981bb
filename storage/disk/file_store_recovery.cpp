// What a start does with the files that are there.

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

result<recovery_report> file_store::recover(const recovery_options& options,
                                            const std::function<void(const disk_page&)>& found) {
  if (auto made = make_root(); !made)
    return made.error();
  auto scanned = file_scan(io_, options_.owner, options).run();
  if (!scanned)
    return scanned.error();
  for (const auto& file : scanned->to_remove)
    (void)io_.remove(file); // Nobody asks for it, and the next start tries again.
  for (const auto folder : scanned->first_folders) {
    first_folders_.set(folder);
    parents_to_sync_.push_back(first_page_folder(folder << 8));
  }
  if (!scanned->first_folders.empty())
    parents_to_sync_.emplace_back(page_files_folder);
  for (const auto folder : scanned->folders)
    folders_.set(folder);
  (void)sync_parents(); // A process that was killed may have left them not durable.
  for (const auto& record : scanned->records) {
    table_.insert(record);
    used_bytes_ += file_bytes(record.page.length_bytes);
    found(record.page);
  }
  next_sequence_ = scanned->last_sequence + 1;
  return scanned->report;
}

} // namespace peercache::storage
