#include "storage/disk/io/disk_name.hpp"

#include <string>

namespace peercache::storage {
namespace {

bool is_inside(std::string_view name) noexcept {
  if (name.find('\0') != std::string_view::npos)
    return false;
  while (true) {
    const auto slash = name.find('/');
    const auto part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..")
      return false;
    if (slash == std::string_view::npos)
      return true;
    name.remove_prefix(slash + 1);
  }
}

} // namespace

result<void> check_disk_name(std::string_view name) {
  if (is_inside(name))
    return {};
  return {errc::invalid_argument,
          "'" + std::string(name) + "' is no name of a file below the disk tier's folder"};
}

result<void> check_disk_folder(std::string_view folder) {
  return folder.empty() ? result<void>() : check_disk_name(folder);
}

std::string_view folder_of(std::string_view name) noexcept {
  const auto slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view last_part_of(std::string_view name) noexcept {
  const auto slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

} // namespace peercache::storage
