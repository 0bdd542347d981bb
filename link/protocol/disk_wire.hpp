#pragma once

#include "link/protocol/pool_wire.hpp"

// The records of the DISK and PROMOTER protocols' batches, packed like those of pool_wire.hpp. Only
// `promoted_page` travels between processes: it changes with `wire_version`.
namespace peercache::link {

/// A page in a slot, for the disk to write.
struct kept_page {
  page_key key;
  std::uint64_t gen = 0; ///< Generation of the slot; the sender has pinned the slot.
  std::uint64_t checksum = 0;
  slot_id slot;
  std::uint32_t length_bytes = 0;
};
static_assert(sizeof(kept_page) == 56 && std::is_trivially_copyable_v<kept_page>);

/// A page that is on disk.
struct stored_page {
  page_key key;
  std::uint64_t checksum = 0;
  std::uint32_t length_bytes = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(stored_page) == 48 && std::is_trivially_copyable_v<stored_page>);

/// A page on disk, and the slot to read it into.
struct wanted_page {
  page_key key;
  slot_id slot;
  std::uint32_t length_bytes = 0;
};
static_assert(sizeof(wanted_page) == 40 && std::is_trivially_copyable_v<wanted_page>);

/// The outcome of reading one wanted_page.
struct loaded_page {
  std::uint64_t checksum = 0;
  std::uint32_t found = 0; ///< 1: the page was read and is in its slot.
  std::uint32_t reserved = 0;
};
static_assert(sizeof(loaded_page) == 16 && std::is_trivially_copyable_v<loaded_page>);

/// A page that a reader wants promoted, described as in its directory record.
struct promoted_page {
  page_key key;
  std::uint32_t length_bytes = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(promoted_page) == 40 && std::is_trivially_copyable_v<promoted_page>);

} // namespace peercache::link
