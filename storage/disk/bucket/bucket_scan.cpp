#include "storage/disk/bucket/bucket_scan.hpp"

#include "storage/disk/page_check.hpp"

#include <algorithm>

namespace peercache::storage {
namespace {

/// How much of a file's end is read first: the trailer, and most often the whole footer.
constexpr std::uint64_t tail_bytes = 68u << 10;

class scanner {
public:
  scanner(const disk_io& io, const record_owner& owner, bucket_scan& found)
      : io_(io), owner_(owner), path_(bucket_path(found.id)), found_(found) {}

  /// Reads the footer, unless the trailer is of another owner or version. False: the file has no
  /// whole footer.
  bool read_sealed();
  void walk();
  /// Drops the pages whose bytes do not match their checksum and adds their number to `count`.
  void drop_wrong_pages(std::uint64_t& count);

private:
  /// Reads a part of the file. False when the file cannot be read, or ends within the part.
  bool read(std::uint64_t offset_bytes, std::uint64_t bytes, std::vector<std::byte>& into);
  bool is_whole(const record_header& record);

  const disk_io& io_;
  const record_owner& owner_;
  std::string path_;
  bucket_scan& found_;
  std::vector<std::byte> block_;
  std::vector<std::byte> page_;
};

bool scanner::read(std::uint64_t offset_bytes, std::uint64_t bytes, std::vector<std::byte>& into) {
  if (into.size() < bytes)
    into.resize(bytes);
  const auto got = io_.read_now(path_, offset_bytes, std::span(into).first(bytes));
  if (!got)
    found_.readable = false;
  return got && *got == bytes;
}

bool scanner::is_whole(const record_header& record) {
  return read(record.offset_bytes, record.length_bytes, page_) &&
         page_fits(page_of(record), page_.data());
}

void scanner::drop_wrong_pages(std::uint64_t& count) {
  const auto wrong =
      std::erase_if(found_.records, [&](const record_header& record) { return !is_whole(record); });
  count += wrong;
}

bool scanner::read_sealed() {
  const auto file_bytes = found_.file_bytes;
  if (file_bytes < disk_block_bytes)
    return false;
  std::vector<std::byte> tail;
  const auto bytes = std::min(file_bytes, tail_bytes);
  if (!read(file_bytes - bytes, bytes, tail))
    return false;
  bucket_trailer trailer;
  const auto last = std::span<const std::byte>(tail).last(sizeof trailer);
  const auto fault = read_trailer(last, found_.id, owner_, file_bytes, trailer);
  if (fault == record_fault::foreign || fault == record_fault::version) {
    found_.foreign += trailer.count;
    return true;
  }
  if (fault != record_fault::none)
    return false;
  const auto footer = file_bytes - trailer.footer_offset_bytes;
  if (footer > bytes && !read(trailer.footer_offset_bytes, footer, tail))
    return false;
  auto records = read_footer(std::span<const std::byte>(tail).last(footer), trailer);
  if (!records)
    return false;
  found_.records = std::move(*records);
  found_.end_bytes = trailer.footer_offset_bytes;
  found_.sealed = true;
  return true;
}

void scanner::walk() {
  for (;;) {
    if (!read(found_.end_bytes, disk_block_bytes, block_))
      break;
    const auto group = read_group(block_, owner_, found_.end_bytes);
    if (group.fault != record_fault::none) {
      const bool other =
          group.fault == record_fault::foreign || group.fault == record_fault::version;
      found_.foreign += other ? 1 : 0;
      found_.torn += !other && group.fault != record_fault::empty ? 1 : 0;
      break;
    }
    found_.records.insert(found_.records.end(), group.records.begin(), group.records.end());
    found_.end_bytes = group.end_bytes;
  }
  drop_wrong_pages(found_.torn);
  found_.end_bytes = 0;
  for (const auto& record : found_.records)
    found_.end_bytes = record.offset_bytes + in_blocks(record.length_bytes);
}

} // namespace

bucket_scan scan_bucket(const disk_io& io, std::uint64_t id, std::uint64_t file_bytes,
                        const record_owner& owner, bool verify) {
  bucket_scan found;
  found.id = id;
  found.file_bytes = file_bytes;
  scanner scan(io, owner, found);
  if (!scan.read_sealed())
    scan.walk();
  else if (verify)
    scan.drop_wrong_pages(found.corrupt);
  return found;
}

} // namespace peercache::storage
