#include "storage/disk/file_per_key/file_names.hpp"

#include "common/assert.hpp"

#include <array>

namespace peercache::storage {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";
constexpr std::string_view temporary_end = ".tmp";

void append_hex(std::string& to, std::uint64_t value, unsigned count) {
  while (count-- != 0)
    to += hex_digits[value >> (4 * count) & 0xf];
}

} // namespace

std::string first_page_folder(std::uint32_t number) {
  PEERCACHE_ASSERT(number < page_folders);
  std::string name(page_files_folder);
  name += '/';
  append_hex(name, number / first_page_folders, 1);
  return name;
}

std::string page_folder(std::uint32_t number) {
  auto name = first_page_folder(number);
  name += '/';
  append_hex(name, number % first_page_folders, 1);
  return name;
}

std::string page_file(const page_key& key) {
  return page_folder(page_folder_number(key)) + '/' + to_string(key);
}

std::string temporary_page_file(const page_key& key, std::uint64_t sequence) {
  auto name = page_file(key) + '.';
  append_hex(name, sequence, 16);
  return name.append(temporary_end);
}

std::optional<page_key> parse_page_file(std::string_view name, std::uint32_t folder) {
  const auto key = parse_page_key(name);
  if (!key || to_string(*key) != name || page_folder_number(*key) != folder)
    return std::nullopt;
  return *key;
}

bool is_temporary_page_file(std::string_view name) noexcept {
  constexpr std::size_t length = 64 + 1 + 16 + temporary_end.size();
  return name.size() == length && name[64] == '.' && name.ends_with(temporary_end);
}

} // namespace peercache::storage
