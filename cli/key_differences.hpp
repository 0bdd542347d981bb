#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// A field in which two key spaces differ.
struct key_difference {
  std::string field;  ///< Name: "page_size", "dtype", "tp", "namespace", ...
  std::string asked;  ///< The field's value where the page was missed.
  std::string stored; ///< The field's value where pages are stored.
  bool operator==(const key_difference&) const = default;
  auto operator<=>(const key_difference&) const = default;
};

/// The fields of a key space by their names, JSON taken apart: "model.dtype" is a leaf of the field
/// "model".
using key_parts = std::map<std::string, std::string>;

/// Parts that `parts_of` returns at most; further ones are left out.
inline constexpr std::size_t key_parts_max = 256;
/// A value of JSON that is longer or has more levels stays one part.
inline constexpr std::size_t json_bytes_max = 8192;
inline constexpr std::size_t json_levels_max = 16;

/// Takes the fields of a key space apart. What clients tell is not trusted: the result has limits.
key_parts parts_of(const std::vector<std::string>& fields);

/// The fields in which two key spaces of one door (the connector of one kind of engine) differ, the
/// most important one first. Fields that follow from others (bytes of a token, heads of a rank) are
/// named only if nothing else differs. Empty: no difference, or only one that is by design, such as
/// another rank's share or another pool.
std::vector<key_difference> differences(const key_parts& asked, const key_parts& stored);

/// Whether equal prompts have other keys in a space that differs in this field: then no page of the
/// one space has a key in the other.
bool changes_keys(std::string_view field);

/// The name of the cause when spaces differ in this field: "page_size", "dtype", ...
std::string cause_of_difference(const key_difference& what);
/// Advice for an operator whose spaces differ in this field.
std::string fix_of_difference(const key_difference& what);

} // namespace peercache::cli
