#include "rdma/verbs/remote_region.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/slot_entry.hpp"

#include <algorithm>

namespace peercache::rdma {

bool remote_region::add(const region_chunk& chunk) {
  if (!within(chunk, announced_))
    return false;
  if (chunk.kind == chunk_kind::area)
    return areas_.size() < area_chunks_max && insert(chunk, areas_);
  return chunks_.size() < announced_.chunks && insert(chunk, chunks_);
}

bool remote_region::insert(const region_chunk& chunk, chunk_list& into) {
  const auto after = std::upper_bound(
      into.begin(), into.end(), chunk.address,
      [](std::uint64_t address, const region_chunk& other) { return address < other.address; });
  if (after != into.end() && chunk.address + chunk.bytes > after->address)
    return false;
  if (after != into.begin() && std::prev(after)->address + std::prev(after)->bytes > chunk.address)
    return false;
  into.insert(after, chunk);
  return true;
}

std::optional<std::uint64_t>
remote_region::page_address(slot_id slot, std::uint32_t length_bytes) const noexcept {
  const std::uint64_t granules = limits::granules_of(length_bytes);
  if (length_bytes == 0 || std::uint64_t{slot.value} + granules > announced_.granules)
    return std::nullopt;
  return announced_.pages_address + std::uint64_t{slot.value} * limits::granule_bytes;
}

std::optional<std::uint64_t> remote_region::byte_address(const page_read& page,
                                                         std::uint32_t offset) const noexcept {
  const auto& rows = page.source;
  if (announced_.service == data_service::handoff) {
    if (rows.rows == 0 || page.slot.value >= announced_.granules)
      return std::nullopt;
    return rows.address + offset / rows.row_bytes * rows.stride_bytes + offset % rows.row_bytes;
  }
  const auto start = page_address(page.slot, page.length_bytes);
  return start ? std::optional(*start + offset) : std::nullopt;
}

std::uint64_t remote_region::entry_address(slot_id slot) const noexcept {
  PEERCACHE_ASSERT(slot.value < announced_.granules);
  return announced_.table_address + std::uint64_t{slot.value} * sizeof(slot_entry);
}

std::optional<remote_region::readable> remote_region::find(std::uint64_t address) const noexcept {
  return find_in(chunks_, address);
}

std::uint64_t remote_region::area_address(std::uint64_t offset) const noexcept {
  return areas_.empty() ? 0 : areas_.front().address + offset;
}

std::optional<remote_region::readable>
remote_region::find_area(std::uint64_t address) const noexcept {
  return find_in(areas_, address);
}

std::optional<remote_region::readable> remote_region::find_in(const chunk_list& chunks,
                                                              std::uint64_t address) noexcept {
  const auto after = std::upper_bound(
      chunks.begin(), chunks.end(), address,
      [](std::uint64_t wanted, const region_chunk& other) { return wanted < other.address; });
  if (after == chunks.begin())
    return std::nullopt;
  const auto& chunk = *std::prev(after);
  const auto offset = address - chunk.address;
  if (offset >= chunk.bytes)
    return std::nullopt;
  return readable{chunk.rkey, chunk.bytes - offset};
}

} // namespace peercache::rdma
