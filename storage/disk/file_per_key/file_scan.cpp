#include "storage/disk/file_per_key/file_scan.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace peercache::storage {
namespace {

constexpr std::uint64_t pages_per_progress = 256;

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  std::vector<T>().swap(from);
}

void count_fault(record_fault fault, recovery_report& report) {
  if (fault == record_fault::foreign || fault == record_fault::version)
    ++report.foreign;
  else
    ++report.torn;
}

void join(file_scan_result& whole, file_scan_result& part) {
  append(whole.records, part.records);
  append(whole.to_remove, part.to_remove);
  whole.report.files += part.report.files;
  whole.report.pages += part.report.pages;
  whole.report.torn += part.report.torn;
  whole.report.foreign += part.report.foreign;
  whole.report.corrupt += part.report.corrupt;
  whole.last_sequence = std::max(whole.last_sequence, part.last_sequence);
  if (!whole.failure)
    whole.failure = part.failure;
}

} // namespace

result<file_scan_result> file_scan::run() {
  // A scan with `verify` starts no more threads than were asked for, because each thread has memory
  // for the largest page.
  const auto wanted =
      options_.verify ? options_.threads : options_.threads * options_.waiting_threads;
  const auto threads = std::clamp(wanted, 1u, page_folders);
  std::vector<file_scan_result> parts(threads);
  run_in_threads(threads, [&](std::uint32_t thread) { work(parts[thread]); });
  auto whole = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i)
    join(whole, parts[i]);
  if (whole.failure)
    return *whole.failure;
  std::sort(whole.records.begin(), whole.records.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return whole;
}

void file_scan::work(file_scan_result& part) {
  page_verifier verifier(io_);
  for (auto folder = next_folder_++; folder < page_folders && !failed_; folder = next_folder_++) {
    if (auto scanned = scan_folder(folder, part, verifier); !scanned) {
      part.failure = scanned.error();
      failed_ = true;
      return;
    }
  }
}

void file_scan::tell_progress(std::uint32_t folder, double share, std::uint64_t pages) {
  const std::lock_guard lock(progress_mutex_);
  pages_ += pages;
  shares_[folder] = share;
  if (options_.progress)
    options_.progress(pages_, std::accumulate(shares_.begin(), shares_.end(), 0.0) / page_folders);
}

result<void> file_scan::scan_folder(std::uint32_t folder, file_scan_result& part,
                                    page_verifier& verifier) {
  auto told = part.report.pages;
  auto read =
      io_.read_heads(page_folder(folder), sizeof(record_header), [&](const disk_file_head& file) {
        scan_file(file, folder, part, verifier);
        if (part.report.pages - told >= pages_per_progress)
          tell_progress(folder, file.share,
                        part.report.pages - std::exchange(told, part.report.pages));
      });
  if (!read && read.error().code != errc::not_found)
    return read;
  tell_progress(folder, 1.0, part.report.pages - told);
  return {};
}

void file_scan::scan_file(const disk_file_head& file, std::uint32_t folder, file_scan_result& part,
                          page_verifier& verifier) {
  const auto path = [&] { return page_folder(folder) + '/' + file.name; };
  if (is_temporary_page_file(file.name)) {
    ++part.report.torn;
    part.to_remove.push_back(path());
    return;
  }
  const auto key = parse_page_file(file.name, folder);
  if (!key)
    return; // A file with another kind of name is not ours: the scan skips it.
  ++part.report.files;
  record_header header;
  auto fault = record_fault::torn;
  if (file.head.size() == sizeof(record_header))
    fault = read_record(file.head, owner_, header);
  const bool whole = fault == record_fault::none && header.offset_bytes == disk_block_bytes &&
                     file.bytes == disk_block_bytes + in_blocks(header.length_bytes);
  // A header with another key than the file's name says: the file was renamed, and its page belongs
  // to another key.
  const bool named = whole && (!guard_on(guard::key) || header.key == *key);
  if (!named) {
    count_fault(fault, part.report);
    part.to_remove.push_back(path());
    return;
  }
  auto page = page_of(header);
  page.key = *key;
  part.last_sequence = std::max(part.last_sequence, header.sequence);
  if (options_.verify && !verifier.intact(page, path(), disk_block_bytes)) {
    ++part.report.corrupt;
    part.to_remove.push_back(path());
    return;
  }
  part.records.push_back({page, 0, header.sequence});
  ++part.report.pages;
}

} // namespace peercache::storage
