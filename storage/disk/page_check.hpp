#pragma once

#include "storage/disk/disk_store.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace peercache::storage {

/// Whether the checksum of the bytes in `memory` is the page's.
bool page_fits(const disk_page& page, const std::byte* memory) noexcept;

/// The status for the event of a request that ended with this errno: 0 is `ok`, ECANCELED is
/// `refused`.
disk_status status_of(int error_number) noexcept;
disk_status status_of(const error& why) noexcept;
/// The status of a read of this page into `memory` that ended with this errno.
disk_status read_status(const disk_page& page, const std::byte* memory, int error_number) noexcept;

/// What a store knows of a page that was written, as it stands in the index.
disk_page page_of(const disk_write& write, std::uint64_t written_s) noexcept;
disk_page page_of(const record_header& header) noexcept;
/// The header of a page's record; `seal` still has to fill in its CRC.
record_header header_of(const disk_page& page, const record_owner& owner, std::uint64_t sequence,
                        std::uint64_t offset_bytes) noexcept;

/// Calls `work` with 0 .. threads - 1, each in a thread of its own (0 in the calling thread), and
/// waits until all calls have returned.
void run_in_threads(std::uint32_t threads, const std::function<void(std::uint32_t)>& work);

/// Reads pages from files and compares them with their checksum, for a start that verifies. Blocks.
/// Threads: one. Memory: the largest page that was read.
class page_verifier {
public:
  explicit page_verifier(const disk_io& io) : io_(io) {}
  bool intact(const disk_page& page, const std::string& file, std::uint64_t offset_bytes);

private:
  const disk_io& io_;
  std::vector<std::byte> memory_;
};

} // namespace peercache::storage
