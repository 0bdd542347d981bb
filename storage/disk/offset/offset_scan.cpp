#include "storage/disk/offset/offset_scan.hpp"

#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace peercache::storage {
namespace {

/// The file is read in pieces of this many blocks.
constexpr std::uint64_t piece_blocks = (4u << 20) / disk_block_bytes;
/// `progress` is called each time that this many more pieces have been read.
constexpr std::uint64_t pieces_per_progress = 64;

std::uint64_t blocks_of(const record_table::entry& record) noexcept {
  return 1 + in_blocks(record.page.length_bytes) / disk_block_bytes;
}

bool older(const record_table::entry& a, const record_table::entry& b) noexcept {
  return a.sequence < b.sequence;
}

} // namespace

/// Takes a record header of the index or of the file, and counts it if it is not a valid record.
/// @param key The key under which the index has the header; null when it was found in the file.
/// @param block The block of the file in which it was found.
void offset_scan::take(std::span<const std::byte> raw, const page_key* key, std::uint64_t block,
                       part& into) {
  record_header header;
  auto fault = record_fault::torn;
  if (raw.size() >= sizeof header)
    fault = read_record(raw, owner_, header);
  if (fault == record_fault::foreign || fault == record_fault::version)
    ++into.foreign;
  if (fault == record_fault::none) {
    const auto page_block = header.offset_bytes / disk_block_bytes;
    record_table::entry record{page_of(header), page_block - 1, header.sequence};
    const bool lies_there = key != nullptr || page_block == block + 1;
    const bool fits =
        page_block != 0 && page_block < blocks_ && blocks_of(record) - 1 <= blocks_ - page_block;
    const bool named = key == nullptr || !guard_on(guard::key) || header.key == *key;
    if (key != nullptr)
      record.page.key = *key;
    into.last_sequence = std::max(into.last_sequence, header.sequence);
    if (lies_there && fits && named) {
      into.records.push_back(record);
      return;
    }
    fault = record_fault::torn;
  }
  if (key == nullptr)
    // A block of the file that is not a good header is part of a page: not counted as torn.
    return;
  into.torn += fault != record_fault::foreign && fault != record_fault::version;
  into.dropped.push_back(*key);
}

result<std::optional<offset_scan_result>> offset_scan::read_index(offset_index& index) {
  const auto threads = std::max(options_.threads, 1u);
  std::vector<part> parts(threads);
  const auto loaded = index.load(
      threads, [&](std::uint32_t thread, const page_key& key, std::span<const std::byte> raw) {
        take(raw, &key, 0, parts[thread]);
      });
  if (!loaded)
    return loaded.error();
  if (!*loaded)
    return std::optional<offset_scan_result>{};
  auto whole = join(parts);
  whole.next_sequence = std::max(whole.next_sequence, **loaded);
  return std::optional(std::move(whole));
}

offset_scan_result offset_scan::read_file() {
  const auto threads = std::max(options_.threads, 1u);
  std::vector<part> parts(threads);
  run_in_threads(threads, [&](std::uint32_t thread) { walk_file(parts[thread]); });
  return join(parts);
}

void offset_scan::walk_file(part& into) {
  const auto pieces = (blocks_ + piece_blocks - 1) / piece_blocks;
  std::vector<std::byte> memory(piece_blocks * disk_block_bytes);
  for (auto piece = next_piece_++; piece < pieces; piece = next_piece_++) {
    const auto before = into.records.size();
    const auto first = piece * piece_blocks;
    const auto bytes = std::min(piece_blocks, blocks_ - first) * disk_block_bytes;
    const auto read =
        io_.read_now(std::string(offset_file), first * disk_block_bytes, {memory.data(), bytes});
    if (read)
      walk_blocks({memory.data(), *read}, first, into);
    else
      // The records in a piece that cannot be read are lost; the piece counts as one torn record.
      ++into.torn;
    const std::lock_guard lock(progress_mutex_);
    pages_seen_ += into.records.size() - before;
    if (++pieces_done_ % pieces_per_progress == 0 && options_.progress)
      options_.progress(pages_seen_,
                        static_cast<double>(pieces_done_) / static_cast<double>(pieces));
  }
}

void offset_scan::walk_blocks(std::span<const std::byte> bytes, std::uint64_t first_block,
                              part& into) {
  static constexpr auto magic = record_header{}.magic;
  for (std::size_t at = 0; at + disk_block_bytes <= bytes.size(); at += disk_block_bytes)
    if (std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0)
      take(bytes.subspan(at, sizeof(record_header)), nullptr, first_block + at / disk_block_bytes,
           into);
}

offset_scan_result offset_scan::join(std::vector<part>& parts) {
  offset_scan_result whole;
  whole.report.files = 1;
  for (auto& each : parts) {
    whole.records.insert(whole.records.end(), each.records.begin(), each.records.end());
    whole.dropped.insert(whole.dropped.end(), each.dropped.begin(), each.dropped.end());
    whole.report.torn += each.torn;
    whole.report.foreign += each.foreign;
    whole.next_sequence = std::max(whole.next_sequence, each.last_sequence + 1);
    each = {};
  }
  drop_overlapped(whole);
  std::sort(whole.records.begin(), whole.records.end(), older);
  drop_replaced(whole);
  if (options_.verify)
    drop_corrupt(whole);
  whole.report.pages = whole.records.size();
  return whole;
}

/// Drops records that overlap newer ones, which were written over them.
void offset_scan::drop_overlapped(offset_scan_result& whole) const {
  auto& records = whole.records;
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.place < b.place; });
  std::size_t kept = 0;
  for (const auto& record : records) {
    const bool over =
        kept != 0 && records[kept - 1].place + blocks_of(records[kept - 1]) > record.place;
    if (!over) {
      records[kept++] = record;
      continue;
    }
    auto& before = records[kept - 1];
    const bool newer = older(before, record);
    whole.dropped.push_back((newer ? before : record).page.key);
    ++whole.report.replaced;
    if (newer)
      before = record;
  }
  records.resize(kept);
}

/// Keeps the newest of several records of a key and drops the older records.
void offset_scan::drop_replaced(offset_scan_result& whole) const {
  std::unordered_set<page_key> seen;
  seen.reserve(whole.records.size());
  std::vector<record_table::entry> kept;
  kept.reserve(whole.records.size());
  for (auto at = whole.records.rbegin(); at != whole.records.rend(); ++at) {
    if (seen.insert(at->page.key).second)
      kept.push_back(*at);
    else
      ++whole.report.replaced;
  }
  std::reverse(kept.begin(), kept.end());
  whole.records = std::move(kept);
}

void offset_scan::drop_corrupt(offset_scan_result& whole) const {
  std::vector<char> intact(whole.records.size(), 0);
  std::atomic<std::size_t> next{0};
  run_in_threads(std::max(options_.threads, 1u), [&](std::uint32_t) {
    page_verifier verifier(io_);
    for (auto i = next++; i < intact.size(); i = next++) {
      const auto& record = whole.records[i];
      intact[i] = static_cast<char>(verifier.intact(record.page, std::string(offset_file),
                                                    (record.place + 1) * disk_block_bytes));
    }
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < intact.size(); ++i) {
    if (intact[i] != 0) {
      whole.records[kept++] = whole.records[i];
    } else {
      ++whole.report.corrupt;
      whole.dropped.push_back(whole.records[i].page.key);
    }
  }
  whole.records.resize(kept);
}

} // namespace peercache::storage
