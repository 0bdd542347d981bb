#pragma once

#include "common/page_key.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::storage {

/// Where a store with a file per key has its files (bump `folder_format` with any change):
///
///   pages/<bits 1 and 2>/<bits 3 and 4>/<64 hex digits of the page's key>
///
/// The text of a caller's key is never in a name, only its digest. The folders are few, so that
/// pages which are written together share them and the syncs that make names durable
/// (bench/README.md). A file system finds one name among 800,000 (a folder of a tier of 100 GiB in
/// pages of 4 KiB) as fast as one among few.
inline constexpr std::string_view page_files_folder = "pages";

/// The number of the folder that a page's file lies in: the first four bits of the page's key, two
/// for the outer folder and two for the inner one.
constexpr std::uint32_t page_folder_number(const page_key& key) noexcept {
  return key.bytes[0] >> 4;
}
inline constexpr std::uint32_t first_page_folders = 4;
inline constexpr std::uint32_t page_folders = 16;

/// The outer folder of page folder `number`: "pages/0" to "pages/3". @pre number < page_folders
std::string first_page_folder(std::uint32_t number);
/// The inner folder of page folder `number`: "pages/0/0" to "pages/3/3". @pre number < page_folders
std::string page_folder(std::uint32_t number);
/// The file of a page: "pages/2/2/abcd…".
std::string page_file(const page_key& key);
/// The file of a record that is being written, in the page's folder, until it gets the page's name:
/// "pages/2/2/abcd….<16 hex digits>.tmp".
std::string temporary_page_file(const page_key& key, std::uint64_t sequence);

/// The key in the last part of a file's name; nothing when no page in folder number `folder` has
/// this name.
std::optional<page_key> parse_page_file(std::string_view name, std::uint32_t folder);
bool is_temporary_page_file(std::string_view name) noexcept;

} // namespace peercache::storage
