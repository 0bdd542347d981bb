#include "storage/disk/other_stores.hpp"

#include "storage/disk/disk_store.hpp"

#include <system_error>

namespace peercache::storage {
namespace {

/// Whether the path is a file, or a folder with a file somewhere below it.
bool has_file(const std::filesystem::path& path) {
  std::error_code failed;
  if (std::filesystem::is_regular_file(path, failed))
    return true;
  for (std::filesystem::recursive_directory_iterator at(path, failed), end; !failed && at != end;
       at.increment(failed))
    if (at->is_regular_file(failed))
      return true;
  return false;
}

} // namespace

std::string files_of_other_stores(const std::filesystem::path& folder, std::string_view used) {
  struct store_files {
    std::string_view store;
    std::string_view name;
    std::string_view words;
  };
  const store_files all[] = {
      {"bucket", bucket_store_files(), "files of the store `bucket`"},
      {"file_per_key", file_store_files(), "files of the store `file_per_key`"},
      {"offset", offset_store_files(), "the file of the store `offset`"}};
  std::string found;
  for (const auto& each : all)
    if (each.store != used && has_file(folder / each.name))
      found += (found.empty() ? "" : " and ") + std::string(each.words);
  return found;
}

} // namespace peercache::storage
