#pragma once

#include "rdma/data_plane.hpp"

#include <cstddef>
#include <span>

namespace peercache::rdma {

/// Judges the bytes that were READ for a page by the entry of its slot or lease, which was READ
/// after the page's last byte had arrived. Returns `hit`, `stale`, `wrong_key` or `bad_size`;
/// `corrupt` when the page's checksum is to be compared and differs.
/// @pre `entry` points to sizeof(slot_entry) bytes of any alignment; `parts` are the batch's
page_status judge_page(const page_read& page, std::span<const page_part> parts,
                       const std::byte* entry) noexcept;

} // namespace peercache::rdma
