#include "storage/disk/bucket/bucket_format.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>

namespace peercache::storage {
namespace {

constexpr std::string_view suffix = ".bucket";
constexpr std::size_t digits = 16;
constexpr std::size_t after_trailer_crc =
    offsetof(bucket_trailer, trailer_crc) + sizeof(std::uint32_t);

std::uint32_t trailer_crc_of(std::span<const std::byte, sizeof(bucket_trailer)> raw) noexcept {
  return crc32c(raw.subspan<after_trailer_crc>(),
                crc32c(raw.first<offsetof(bucket_trailer, trailer_crc)>()));
}

} // namespace

std::string bucket_path(std::uint64_t id) {
  char name[digits + 1];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(id));
  return std::string(bucket_folder) + '/' + name + std::string(suffix);
}

std::optional<std::uint64_t> parse_bucket_name(std::string_view name) {
  if (name.size() != digits + suffix.size() || !name.ends_with(suffix))
    return std::nullopt;
  std::uint64_t id = 0;
  const char* end = name.data() + digits;
  const auto parsed = std::from_chars(name.data(), end, id, 16);
  // A name in any other spelling than `bucket_path` writes is refused: otherwise two names for one
  // id would be two buckets.
  if (parsed.ec != std::errc{} || parsed.ptr != end || id > bucket_id_max ||
      !bucket_path(id).ends_with(name))
    return std::nullopt;
  return id;
}

disk_blocks make_blocks(std::uint64_t bytes) {
  PEERCACHE_ASSERT(bytes != 0 && bytes % disk_block_bytes == 0);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(disk_block_bytes, bytes));
  if (memory == nullptr)
    throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return disk_blocks(memory);
}

disk_blocks make_footer(std::uint64_t id, const record_owner& owner,
                        std::span<const record_header> records, std::uint64_t offset_bytes) {
  const auto bytes = footer_bytes(records.size());
  auto footer = make_blocks(bytes);
  std::memcpy(footer.get(), records.data(), records.size_bytes());
  bucket_trailer trailer;
  trailer.id = id;
  trailer.space = owner.space;
  trailer.node = owner.node;
  trailer.footer_offset_bytes = offset_bytes;
  trailer.count = static_cast<std::uint32_t>(records.size());
  trailer.records_crc = crc32c(std::as_bytes(records));
  trailer.trailer_crc =
      trailer_crc_of(std::as_bytes(std::span<const bucket_trailer, 1>{&trailer, 1}));
  std::memcpy(footer.get() + bytes - sizeof trailer, &trailer, sizeof trailer);
  return footer;
}

record_fault read_trailer(std::span<const std::byte> raw, std::uint64_t id,
                          const record_owner& owner, std::uint64_t file_bytes,
                          bucket_trailer& trailer) noexcept {
  PEERCACHE_ASSERT(raw.size() >= sizeof trailer);
  const auto bytes = raw.first<sizeof(bucket_trailer)>();
  bucket_trailer read;
  std::memcpy(&read, bytes.data(), sizeof read);
  if (read.magic != bucket_trailer{}.magic || read.trailer_crc != trailer_crc_of(bytes))
    return record_fault::torn;
  trailer = read;
  if (read.version != bucket_version)
    return record_fault::version;
  if (read.space != owner.space || read.node != owner.node || read.id != id)
    return record_fault::foreign;
  if (read.footer_offset_bytes > file_bytes ||
      file_bytes - read.footer_offset_bytes != footer_bytes(read.count))
    return record_fault::torn;
  return record_fault::none;
}

std::optional<std::vector<record_header>> read_footer(std::span<const std::byte> raw,
                                                      const bucket_trailer& trailer) {
  const auto headers_bytes = std::size_t{trailer.count} * sizeof(record_header);
  if (raw.size() < headers_bytes || crc32c(raw.first(headers_bytes)) != trailer.records_crc)
    return std::nullopt;
  std::vector<record_header> records(trailer.count);
  const record_owner owner{trailer.space, trailer.node};
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto& record = records[i];
    if (read_record(raw.subspan(i * sizeof record), owner, record) != record_fault::none)
      return std::nullopt;
    const auto blocks = in_blocks(record.length_bytes);
    if (blocks > trailer.footer_offset_bytes ||
        record.offset_bytes > trailer.footer_offset_bytes - blocks)
      return std::nullopt;
  }
  return records;
}

std::uint64_t place_group(std::span<record_header> records, std::uint64_t offset_bytes) noexcept {
  PEERCACHE_ASSERT(!records.empty() && records.size() < records_per_block);
  auto at = offset_bytes + disk_block_bytes;
  auto more = static_cast<std::uint32_t>(records.size());
  for (auto& record : records) {
    record.offset_bytes = at;
    record.more = --more;
    at += in_blocks(record.length_bytes);
  }
  return at;
}

group_headers read_group(std::span<const std::byte> block, const record_owner& owner,
                         std::uint64_t offset_bytes) {
  PEERCACHE_ASSERT(block.size() >= disk_block_bytes);
  group_headers group;
  group.end_bytes = offset_bytes + disk_block_bytes;
  std::uint32_t more = 1;
  for (std::size_t i = 0; more != 0; ++i) {
    record_header record;
    group.fault = read_record(block.subspan(i * sizeof record), owner, record);
    // A header belongs to the group only if its place, its count and its offset are what the writer
    // would have written.
    if (group.fault == record_fault::none &&
        (record.offset_bytes != group.end_bytes || record.more >= records_per_block - 1 - i ||
         (i != 0 && record.more + 1 != more)))
      group.fault = record_fault::bad_size;
    if (group.fault != record_fault::none) {
      group.records.clear();
      return group;
    }
    more = record.more;
    group.end_bytes += in_blocks(record.length_bytes);
    group.records.push_back(record);
  }
  return group;
}

} // namespace peercache::storage
