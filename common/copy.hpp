#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache {

/// Copies for pages: memory far larger than the caches on both sides, so the destination is written with
/// streaming (non-temporal) stores where that is faster, in cache-sized chunks. AVX-512, AVX2 or plain
/// code is chosen once at run time.
///
/// All end with a store fence: whoever learns of the copy by a later store sees its bytes.
/// @pre the ranges do not overlap and have the same size. Threads: any.
void copy_page(std::span<std::byte> to, std::span<const std::byte> from) noexcept;

/// As `copy_page`, and returns XXH3-64 of the bytes, computed while they pass through the cache. The digest is
/// of the bytes that were written to `to` even when `from` changes meanwhile? No: `from` must not change for
/// the digest to mean anything; a reader of shared memory re-checks the generation.
std::uint64_t copy_page_and_checksum(std::span<std::byte> to,
                                     std::span<const std::byte> from) noexcept;

class checksum_stream;

/// One piece of a page of several parts: copies, and feeds `digest`. No fence; call `copy_fence` after the last.
void copy_part(std::span<std::byte> to, std::span<const std::byte> from,
               checksum_stream* digest) noexcept;

/// Orders all earlier streaming stores of this thread before its later stores.
void copy_fence() noexcept;

/// "avx512", "avx2" or "generic": what `copy_page` uses here.
const char* copy_instruction_set() noexcept;

} // namespace peercache
