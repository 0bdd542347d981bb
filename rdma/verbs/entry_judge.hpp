#pragma once

#include "rdma/data_plane.hpp"

#include <cstddef>
#include <span>

namespace peercache::rdma {

/// Judges the bytes that were READ for a page by the slot's entry, READ after the page's last byte
/// had arrived: `hit`, or `stale`, `wrong_key`, `bad_size`; and `corrupt` when the page wants its
/// checksum compared and it differs.
/// @pre `entry` points to sizeof(slot_entry) bytes of any alignment; `parts` are the batch's
page_status judge_page(const page_read& page, std::span<const page_part> parts,
                       const std::byte* entry) noexcept;

} // namespace peercache::rdma
