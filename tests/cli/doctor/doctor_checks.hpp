#pragma once

#include "cli/doctor/doctor.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

// Helpers for the tests of the checks of `peercache doctor`.
namespace peercache::cli {

inline constexpr std::uint64_t gib = 1ull << 30;

inline check named(const check_group& group, const std::string& name) {
  auto found = std::find_if(group.checks.begin(), group.checks.end(),
                            [&](const check& one) { return one.name == name; });
  return found == group.checks.end() ? check{"no such check", verdict::fail, name, ""} : *found;
}

inline check with_id_of(const check_group& group, const std::string& id) {
  auto found = std::find_if(group.checks.begin(), group.checks.end(),
                            [&](const check& one) { return one.id == id; });
  return found == group.checks.end() ? check{"no such check", verdict::fail, id, ""} : *found;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace peercache::cli
