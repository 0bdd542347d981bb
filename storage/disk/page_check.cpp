#include "storage/disk/page_check.hpp"

#include "common/checksum.hpp"

#include <cerrno>
#include <thread>
#include <vector>

namespace peercache::storage {

bool page_fits(const disk_page& page, const std::byte* memory) noexcept {
  return !guard_on(guard::checksum) || checksum_of({memory, page.length_bytes}) == page.checksum;
}

disk_status status_of(int error_number) noexcept {
  if (error_number == 0)
    return disk_status::ok;
  if (error_number == ECANCELED)
    return disk_status::refused;
  return error_number == ENOSPC || error_number == EDQUOT ? disk_status::no_space
                                                          : disk_status::io_failed;
}

disk_status status_of(const error& why) noexcept {
  return why.code == errc::out_of_space ? disk_status::no_space : disk_status::io_failed;
}

disk_status read_status(const disk_page& page, const std::byte* memory, int error_number) noexcept {
  if (error_number != 0)
    return status_of(error_number);
  return page_fits(page, memory) ? disk_status::ok : disk_status::corrupt;
}

disk_page page_of(const disk_write& write, std::uint64_t written_s) noexcept {
  return {write.key, write.gen, write.checksum, written_s, write.length_bytes};
}

disk_page page_of(const record_header& header) noexcept {
  return {header.key, generation{header.gen}, header.checksum, header.written_s,
          header.length_bytes};
}

record_header header_of(const disk_page& page, const record_owner& owner, std::uint64_t sequence,
                        std::uint64_t offset_bytes) noexcept {
  record_header header;
  header.key = page.key;
  header.space = owner.space;
  header.node = owner.node;
  header.gen = page.gen.value;
  header.sequence = sequence;
  header.written_s = page.written_s;
  header.checksum = page.checksum;
  header.offset_bytes = offset_bytes;
  header.length_bytes = page.length_bytes;
  return header;
}

void run_in_threads(std::uint32_t threads, const std::function<void(std::uint32_t)>& work) {
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < threads; ++i)
    others.emplace_back(work, i);
  work(0);
  for (auto& other : others)
    other.join();
}

bool page_verifier::intact(const disk_page& page, const std::string& file,
                           std::uint64_t offset_bytes) {
  if (memory_.size() < page.length_bytes)
    memory_.resize(page.length_bytes);
  const auto read = io_.read_now(file, offset_bytes, {memory_.data(), page.length_bytes});
  return read && *read == page.length_bytes && page_fits(page, memory_.data());
}

} // namespace peercache::storage
