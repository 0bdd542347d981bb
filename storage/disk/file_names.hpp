#pragma once

#include "common/page_key.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::storage {

/// Where a store with a file per key has its files:
///
///   pages/<digits 1 2>/<digits 3 4>/<64 hex digits of the key's digest>
///
/// Nothing of a caller's key is ever in a name.
inline constexpr std::string_view page_files_folder = "pages";

/// Both levels together: the first two bytes of the digest.
constexpr std::uint32_t page_folder_number(const page_key& key) noexcept {
  return std::uint32_t{key.bytes[0]} << 8 | key.bytes[1];
}
inline constexpr std::uint32_t page_folders = 1u << 16;

/// "pages/ab".
std::string first_page_folder(std::uint32_t number);
/// "pages/ab/cd".
std::string page_folder(std::uint32_t number);
/// "pages/ab/cd/abcd…".
std::string page_file(const page_key& key);
/// In the same folder, for a record on its way: "pages/ab/cd/abcd….<16 hex digits>.tmp".
std::string temporary_page_file(const page_key& key, std::uint64_t sequence);

/// The two digits of a folder's last part; nothing when no folder of ours is called so.
std::optional<std::uint32_t> parse_folder_part(std::string_view name);
/// Of a file's last part; nothing when no page of that folder is called so.
std::optional<page_key> parse_page_file(std::string_view name, std::uint32_t folder);
bool is_temporary_page_file(std::string_view name) noexcept;

} // namespace peercache::storage
