#pragma once

#include "client/c/failure.hpp"
#include "client/c/peercache.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace peercache::c_api {

/// Longest struct that a caller may hand over, in bytes. A larger size was never set by the caller;
/// no later header has such a struct.
inline constexpr std::uint32_t struct_bytes_max = 4096;

/// Whether all bytes in [from, until) of a caller's struct are 0.
inline bool is_zero(const void* given, std::size_t from, std::size_t until) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(given);
  return std::all_of(bytes + from, bytes + std::max(from, until),
                     [](unsigned char byte) { return byte == 0; });
}

/// Checks the size that a caller says a struct has, which is at least the struct's `oldest` (as it
/// was in the first release) and a multiple of 8. Returns PEERCACHE_OK, or the code of the fault.
inline int check_size(std::uint64_t size, std::size_t oldest, std::string_view name) noexcept {
  if (size < oldest || size > struct_bytes_max || size % 8 != 0)
    return refuse_argument(name, ": its size is not that of the struct; begin with the macro "
                                 "PEERCACHE_..._INIT");
  return PEERCACHE_OK;
}

/// Takes a struct that begins with its size from a caller, who may know fewer of its members, which
/// are 0 then, or more, which must be 0. Returns PEERCACHE_OK, or the code of the fault.
template <class Struct>
int take_struct(const Struct* given, Struct& own, std::size_t oldest,
                std::string_view name) noexcept {
  if (given == nullptr)
    return refuse_argument(name, " is NULL");
  if (const int code = check_size(given->size, oldest, name); code != PEERCACHE_OK)
    return code;
  if (!is_zero(given, sizeof(Struct), given->size))
    return fail(
        PEERCACHE_INCOMPATIBLE,
        "a struct has members that this library is too old for; install a newer libpeercache");
  own = {};
  std::memcpy(&own, given, std::min<std::size_t>(sizeof(Struct), given->size));
  return PEERCACHE_OK;
}

/// Writes a struct to where a caller wants it: members that he does not know are left out, and
/// those that this library does not know are 0.
template <class Struct>
void give_struct(const Struct& own, void* wanted, std::size_t size) noexcept {
  std::memcpy(wanted, &own, std::min(sizeof(Struct), size));
  if (size > sizeof(Struct))
    std::memset(static_cast<char*>(wanted) + sizeof(Struct), 0, size - sizeof(Struct));
}

} // namespace peercache::c_api
