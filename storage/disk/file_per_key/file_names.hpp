#pragma once

#include "common/page_key.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::storage {

/// Where a store with a file per key has its files (any change is another `folder_format`):
///
///   pages/<bits 1 and 2>/<bits 3 and 4>/<64 hex digits of the key's digest>
///
/// Nothing of a caller's key is ever in a name. The folders are few, so that pages which are
/// written together share them and the syncs that make names durable (bench/README.md). A file
/// system finds one name among 800,000 (a folder of a tier of 100 GiB in pages of 4 KiB) as fast as
/// one among few.
inline constexpr std::string_view page_files_folder = "pages";

/// The number of a page's folder: the first four bits of the digest, both levels together.
constexpr std::uint32_t page_folder_number(const page_key& key) noexcept {
  return key.bytes[0] >> 4;
}
inline constexpr std::uint32_t first_page_folders = 4;
inline constexpr std::uint32_t page_folders = 16;

/// "pages/0" to "pages/3", of the folder of this number. @pre number < page_folders
std::string first_page_folder(std::uint32_t number);
/// "pages/0/0" to "pages/3/3". @pre number < page_folders
std::string page_folder(std::uint32_t number);
/// "pages/2/2/abcd…".
std::string page_file(const page_key& key);
/// The name of a record on its way, in the page's folder: "pages/2/2/abcd….<16 hex digits>.tmp".
std::string temporary_page_file(const page_key& key, std::uint64_t sequence);

/// The key in the last part of a file's name; nothing when no page of that folder is called so.
std::optional<page_key> parse_page_file(std::string_view name, std::uint32_t folder);
bool is_temporary_page_file(std::string_view name) noexcept;

} // namespace peercache::storage
