#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace peercache::link {

/// A page whose bytes are in their slot: commit batches are arrays of filled slots, in prefix
/// order.
///
///   offset  bytes  field
///        0     32  key
///       32      8  checksum   of the page; 0: not computed, the pool computes it
///       40      4  slot
///       44      4  length     bytes
struct filled_slot {
  page_key key;
  std::uint64_t checksum = 0;
  slot_id slot;
  std::uint32_t length_bytes = 0;
};
static_assert(sizeof(filled_slot) == 48 && std::is_trivially_copyable_v<filled_slot>);

/// What the pool does with a page that the cluster has on another host already.
enum class commit_mode : std::uint8_t {
  store = 0,  ///< The new copy stays beside the others.
  skip = 1,   ///< The new copy is dropped when all directory owners know the page elsewhere.
  mirror = 2, ///< The new copy is a mirror of a page that was read from another host.
};
inline constexpr std::uint8_t commit_modes = 3;

/// A page that a client READ over RDMA, or holds against eviction.
///
///   offset  bytes  field
///        0      8  generation  of the slot when it was READ, or looked up
///        8      4  slot
///       12      4  reserved    zero
struct used_page {
  generation gen;
  slot_id slot;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(used_page) == 16 && std::is_trivially_copyable_v<used_page>);

/// A page that the previous process left in the pool. Travels within a node only.
///
///   offset  bytes  field
///        0      4  slot
///        4      4  intact    1: its bytes match their checksum, 0: they do not
struct compared_page {
  slot_id slot;
  std::uint32_t intact = 0;
};
static_assert(sizeof(compared_page) == 8 && std::is_trivially_copyable_v<compared_page>);

/// Most used_pages of one message that are looked at; a node ignores or refuses more.
inline constexpr std::size_t used_pages_max = 4096;

/// Stands in place of a slot: no room could be made.
inline constexpr slot_id no_slot{0xffffffff};

/// Appends a trivially copyable record to a string: `u32` lengths, `slot_id`s, `filled_slot`s,
/// `used_page`s, `page_key`s. Little-endian hosts only; the hello's `wire_version` stands for the
/// layout.
template <class T>
void append_record(std::string& blob, const T& record) {
  static_assert(std::is_trivially_copyable_v<T>);
  blob.append(reinterpret_cast<const char*>(&record), sizeof record);
}

/// Returns how many records `blob` holds, or nothing when its size is not a multiple of a record's.
template <class T>
std::optional<std::size_t> record_count(std::string_view blob) noexcept {
  if (blob.size() % sizeof(T) != 0)
    return std::nullopt;
  return blob.size() / sizeof(T);
}

/// Returns the record at an index of `blob`. @pre index < *record_count<T>(blob)
template <class T>
T record_at(std::string_view blob, std::size_t index) noexcept {
  T record;
  std::memcpy(static_cast<void*>(&record), blob.data() + index * sizeof record, sizeof record);
  return record;
}

} // namespace peercache::link
