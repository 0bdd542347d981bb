#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache {

/// Copies a page, whose memory is far larger than the CPU's caches: the destination is written with
/// streaming (non-temporal) stores. AVX-512, AVX2, NEON or plain code is chosen once at run time.
///
/// `copy_page` and `copy_page_and_checksum` end with a store fence: whoever learns of the copy by a
/// later store sees its bytes. Ranges may have any size and alignment; cache-line-aligned ones are
/// fastest.
/// @pre the ranges do not overlap and have the same size. Threads: any.
void copy_page(std::span<std::byte> to, std::span<const std::byte> from) noexcept;

/// Copies as `copy_page` does, and returns XXH3-64 of the bytes. The digest is that of `from`, and
/// of what `to` holds afterwards, only if `from` does not change during the call. A reader of
/// memory that another process may overwrite re-checks the slot's generation after the call, and
/// discards the copy and the digest if it changed.
std::uint64_t copy_page_and_checksum(std::span<std::byte> to,
                                     std::span<const std::byte> from) noexcept;

class checksum_stream;

/// Copies one piece of a page of several parts, and feeds `digest` unless it is null. Makes no
/// fence: call `copy_fence` after the last piece.
void copy_part(std::span<std::byte> to, std::span<const std::byte> from,
               checksum_stream* digest) noexcept;

/// Orders all earlier streaming stores of this thread before its later stores.
void copy_fence() noexcept;

/// Name of the instruction set that `copy_page` uses on this CPU: "avx512", "avx2", "neon" or
/// "generic".
const char* copy_instruction_set() noexcept;

} // namespace peercache
