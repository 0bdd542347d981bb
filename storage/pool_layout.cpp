#include "storage/pool_layout.hpp"

#include "common/limits.hpp"
#include "common/slot_entry.hpp"
#include "storage/client_entry.hpp"
#include "storage/hold_table.hpp"
#include "storage/host_index.hpp"

#include <algorithm>
#include <atomic>

namespace peercache::storage {
namespace {

/// The largest page of the kernels that run us, on arm64: parts that clients map read-only begin
/// and end at such pages, so that a pool has one layout under all kernels.
constexpr std::uint64_t kernel_page_bytes_max = 64u << 10;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// The size of the holds' account and words.
std::uint64_t holds_bytes(std::uint64_t granules) {
  return sizeof(hold_block) + granules * sizeof(std::atomic<std::uint64_t>);
}

bool fits(const pool_layout& at, std::uint64_t object_bytes) {
  const auto index_end = at.index_offset + at.index_buckets * sizeof(host_index::bucket);
  const auto holds_end = at.holds_offset + holds_bytes(at.granules);
  const auto clients_end = at.clients_offset + std::uint64_t{at.granules} * sizeof(client_entry);
  const auto table_end = at.table_offset + std::uint64_t{at.granules} * sizeof(slot_entry);
  const auto pages_end = at.pages_offset + std::uint64_t{at.granules} * limits::granule_bytes;
  const auto starts_a_part = [](std::uint64_t offset) {
    return offset % kernel_page_bytes_max == 0;
  };
  return at.object_bytes == object_bytes && at.index_offset >= pool_header_bytes &&
         at.index_offset <= object_bytes && starts_a_part(at.index_offset) &&
         starts_a_part(at.table_offset) && starts_a_part(at.pages_offset) &&
         at.index_buckets != 0 && index_end <= at.holds_offset && at.holds_offset <= object_bytes &&
         at.holds_offset % alignof(slot_entry) == 0 && holds_end <= at.clients_offset &&
         at.clients_offset <= object_bytes && at.clients_offset % alignof(client_entry) == 0 &&
         clients_end <= at.table_offset && at.table_offset <= object_bytes &&
         table_end <= at.pages_offset && at.pages_offset <= object_bytes &&
         pages_end <= object_bytes && at.granules != 0;
}

} // namespace

result<pool_layout> plan_layout(std::uint64_t size_bytes, std::uint64_t huge_page_bytes) {
  const auto unit = huge_page_bytes != 0 ? huge_page_bytes : limits::granule_bytes;
  const auto pages_bytes = size_bytes / unit * unit;
  const auto granules = pages_bytes / limits::granule_bytes;
  if (granules == 0 || granules >= UINT32_MAX)
    return {errc::invalid_argument,
            "pool.size must be at least " + std::to_string(unit) + " bytes and below 16 TiB"};
  const auto part = std::max(unit, kernel_page_bytes_max);
  pool_layout plan;
  plan.granules = static_cast<std::uint32_t>(granules);
  plan.index_buckets = host_index::buckets_for(plan.granules);
  plan.index_offset = round_up(pool_header_bytes, part);
  plan.holds_offset =
      round_up(plan.index_offset + plan.index_buckets * std::uint64_t{sizeof(host_index::bucket)},
               limits::granule_bytes);
  plan.clients_offset = round_up(plan.holds_offset + holds_bytes(granules), limits::granule_bytes);
  plan.table_offset = round_up(plan.clients_offset + granules * sizeof(client_entry), part);
  plan.pages_offset = round_up(plan.table_offset + granules * sizeof(slot_entry), part);
  plan.object_bytes = plan.pages_offset + pages_bytes;
  return plan;
}

result<pool_layout> read_layout(const pool_header& header, std::uint64_t object_bytes,
                                const std::string& name) {
  if (object_bytes < pool_header_bytes ||
      header.magic.load(std::memory_order_acquire) != pool_magic)
    return {errc::incompatible, name + " is not a PeerCache pool, or not ready yet"};
  if (header.layout_version != pool_layout_version || header.granule_bytes != limits::granule_bytes)
    return {errc::incompatible, name + " has layout version " +
                                    std::to_string(header.layout_version) + ", this program " +
                                    std::to_string(pool_layout_version) +
                                    "; use the same release for node and client"};
  const pool_layout found{.granules = header.granules,
                          .index_buckets = header.index_buckets,
                          .index_offset = header.index_offset,
                          .holds_offset = header.holds_offset,
                          .clients_offset = header.clients_offset,
                          .table_offset = header.table_offset,
                          .pages_offset = header.pages_offset,
                          .object_bytes = header.object_bytes};
  if (!fits(found, object_bytes))
    return {errc::incompatible, name + ": the header's sizes contradict the object's"};
  return found;
}

void write_layout(pool_header& header, const pool_layout& layout) {
  header.layout_version = pool_layout_version;
  header.granule_bytes = limits::granule_bytes;
  header.granules = layout.granules;
  header.index_buckets = layout.index_buckets;
  header.index_offset = layout.index_offset;
  header.holds_offset = layout.holds_offset;
  header.clients_offset = layout.clients_offset;
  header.table_offset = layout.table_offset;
  header.pages_offset = layout.pages_offset;
  header.object_bytes = layout.object_bytes;
}

} // namespace peercache::storage
