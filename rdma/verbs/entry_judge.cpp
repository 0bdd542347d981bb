#include "rdma/verbs/entry_judge.hpp"

#include "common/checksum.hpp"
#include "common/guards.hpp"
#include "common/slot_entry.hpp"

#include <cstring>

namespace peercache::rdma {
namespace {

template <class T>
T field_at(const std::byte* entry, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, entry + offset, sizeof value);
  return value;
}

bool checksum_is_right(const page_read& page, std::span<const page_part> parts) noexcept {
  checksum_stream digest;
  for (const auto& part : parts.subspan(page.first_part, page.part_count))
    digest.update({part.data, part.bytes});
  return digest.digest() == page.checksum;
}

} // namespace

page_status judge_page(const page_read& page, std::span<const page_part> parts,
                       const std::byte* entry) noexcept {
  const auto generation_then = field_at<std::uint64_t>(entry, offsetof(slot_entry, generation));
  if ((generation_then != page.gen.value || !page.gen.readable()) && guard_on(guard::generation))
    return page_status::stale;
  if (field_at<page_key>(entry, offsetof(slot_entry, key)) != page.key && guard_on(guard::key))
    return page_status::wrong_key;
  // The entry of a lease has no length to compare.
  if (page.source.rows == 0 &&
      field_at<std::uint32_t>(entry, offsetof(slot_entry, length_bytes)) != page.length_bytes)
    return page_status::bad_size;
  if (page.verify && guard_on(guard::checksum) && !checksum_is_right(page, parts))
    return page_status::corrupt;
  return page_status::hit;
}

} // namespace peercache::rdma
