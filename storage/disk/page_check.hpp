#pragma once

#include "storage/disk/disk_store.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace peercache::storage {

/// Whether these bytes are the page's, by its checksum.
bool page_fits(const disk_page& page, const std::byte* memory) noexcept;

/// The status of an event for an error number; ECANCELED is `refused`.
disk_status status_of(int error_number) noexcept;
disk_status status_of(const error& why) noexcept;

/// A page that is written, as it is known when it is durable.
disk_page page_of(const disk_write& write, std::uint64_t written_s) noexcept;
disk_page page_of(const record_header& header) noexcept;
/// The record's header, not sealed.
record_header header_of(const disk_page& page, const record_owner& owner, std::uint64_t sequence,
                        std::uint64_t offset_bytes) noexcept;

/// Calls `work` with 0 .. threads - 1, each in a thread of its own but for the first, and waits for
/// all of them.
void run_in_threads(std::uint32_t threads, const std::function<void(std::uint32_t)>& work);

/// Reads pages at once and compares them, for a start that verifies.
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
