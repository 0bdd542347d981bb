#pragma once

#include "client/c/failure.hpp"
#include "client/c/peercache.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace peercache::c_api {

/// Longest struct that a caller may hand over, in bytes. No header will have a longer one: a larger
/// size comes from a caller that did not set it.
inline constexpr std::uint32_t struct_bytes_max = 4096;

/// Whether all bytes in [from, until) of a caller's struct are 0.
inline bool is_zero(const void* given, std::size_t from, std::size_t until) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(given);
  return std::all_of(bytes + from, bytes + std::max(from, until),
                     [](unsigned char byte) { return byte == 0; });
}

/// Checks the size that a caller gives for its struct: at least `oldest` (the struct's size in the
/// first release), at most `struct_bytes_max`, and a multiple of 8. Returns PEERCACHE_OK, or the
/// code of the fault.
inline int check_size(std::uint64_t size, std::size_t oldest, std::string_view name) noexcept {
  if (size < oldest || size > struct_bytes_max || size % 8 != 0)
    return refuse_argument(name, ": its size is not that of the struct; begin with the macro "
                                 "PEERCACHE_..._INIT");
  return PEERCACHE_OK;
}

/// Copies a caller's struct, which begins with its size, to `own`. Members that the caller's header
/// lacks become 0; members that this library lacks must be 0. Returns PEERCACHE_OK, or the code of
/// the fault.
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

/// Copies `own` to a caller's struct of `size` bytes: members that the caller's header lacks are
/// left out, members that this library lacks become 0.
template <class Struct>
void give_struct(const Struct& own, void* wanted, std::size_t size) noexcept {
  std::memcpy(wanted, &own, std::min(sizeof(Struct), size));
  if (size > sizeof(Struct))
    std::memset(static_cast<char*>(wanted) + sizeof(Struct), 0, size - sizeof(Struct));
}

} // namespace peercache::c_api
