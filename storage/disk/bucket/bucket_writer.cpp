#include "storage/disk/bucket/bucket_writer.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::storage {

bucket_writer::bucket_writer(bucket_files& files, bucket_requests& requests,
                             const disk_store_options& options)
    : files_(files), requests_(requests), options_(options), file_bytes_(file_bytes_max()) {}

std::uint64_t bucket_writer::file_bytes_max() const noexcept {
  return std::min(in_blocks(options_.bucket_bytes), bucket_bytes_max);
}

void bucket_writer::continue_after(std::uint64_t sequence) noexcept {
  next_sequence_ = std::max(next_sequence_, sequence + 1);
}

// Functions that put pages into groups, and groups into buckets.

disk_status bucket_writer::write(const disk_write& page) {
  PEERCACHE_ASSERT(!full());
  if (page.length_bytes == 0 || page.length_bytes > limits::page_bytes_max)
    return disk_status::refused;
  // The sequence orders the writes of a key: the page that was handed in later is the newer one,
  // however long each write takes.
  const auto status = place({.write = page, .sequence = next_sequence_++});
  pages_on_way_ += status == disk_status::ok ? 1 : 0;
  return status;
}

bucket_group* bucket_writer::group_for(bucket& in, std::uint64_t page_bytes) {
  if (in.groups.empty())
    return nullptr;
  auto& last = in.groups.back();
  const bool takes = !last.started() && last.pages.size() < records_per_block - 1 &&
                     in.end_bytes - last.offset_bytes + page_bytes <= group_bytes_max;
  return takes ? &last : nullptr;
}

disk_status bucket_writer::place(const bucket_page& page) {
  const auto page_bytes = in_blocks(page.write.length_bytes);
  auto* group = open_ != nullptr ? group_for(*open_, page_bytes) : nullptr;
  if (open_ != nullptr) {
    const auto end = open_->end_bytes + (group == nullptr ? disk_block_bytes : 0) + page_bytes;
    const bool no_key_more = open_->keys >= options_.bucket_keys;
    if (no_key_more || end + footer_bytes(open_->keys + 1) > open_->file_bytes) {
      // A bucket that is full by its number of keys leaves room unused, so the next bucket's file
      // gets one and a half times the bytes that the full bucket used. After a bucket that is full
      // by bytes the next file is twice as large.
      file_bytes_ = std::min(no_key_more ? in_blocks(open_->end_bytes / 2 * 3) : file_bytes_ * 2,
                             file_bytes_max());
      close_open_bucket();
      group = nullptr;
    }
  }
  if (open_ == nullptr)
    if (const auto status = open_bucket(page_bytes); status != disk_status::ok)
      return status;
  if (group == nullptr) {
    group = &open_->groups.emplace_back();
    group->offset_bytes = open_->end_bytes;
    open_->end_bytes += disk_block_bytes;
  }
  group->pages.push_back(page);
  open_->end_bytes += page_bytes;
  group->end_bytes = open_->end_bytes;
  ++open_->keys;
  return disk_status::ok;
}

disk_status bucket_writer::open_bucket(std::uint64_t page_blocks_bytes) {
  const auto least = disk_block_bytes + page_blocks_bytes + footer_bytes(1);
  if (least > options_.size_bytes)
    return disk_status::refused;
  if (!files_.has_room(least))
    return disk_status::no_room;
  auto made = files_.create(file_bytes_, least);
  if (!made)
    return made.error().code == errc::out_of_space ? disk_status::no_space : disk_status::io_failed;
  open_ = *made;
  open_->at = bucket::phase::open;
  ++open_->users;
  writing_.push_back(open_);
  return disk_status::ok;
}

void bucket_writer::close_open_bucket() {
  if (open_ != nullptr)
    open_->at = bucket::phase::closing;
  open_ = nullptr;
}

void bucket_writer::start(bucket& in, bucket_group& group) {
  PEERCACHE_ASSERT(!group.started() && !group.pages.empty());
  std::vector<record_header> records(group.pages.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& page = group.pages[i];
    // `place_group` sets the page's offset.
    records[i] = header_of(page_of(page.write, unix_s_), options_.owner, page.sequence, 0);
  }
  const auto end_bytes = place_group(records, group.offset_bytes);
  PEERCACHE_ASSERT(end_bytes == group.end_bytes);
  if (spare_.empty())
    spare_.push_back(make_blocks(disk_block_bytes));
  group.headers = std::move(spare_.back());
  spare_.pop_back();
  std::memset(group.headers.get(), 0, disk_block_bytes);
  for (std::size_t i = 0; i < records.size(); ++i) {
    storage::seal(records[i]);
    std::memcpy(group.headers.get() + i * sizeof(record_header), &records[i],
                sizeof(record_header));
    group.pages[i].record = records[i];
  }
  request(in, group, bucket_operation::kind::headers, 0);
  for (std::uint32_t i = 0; i < group.pages.size(); ++i)
    request(in, group, bucket_operation::kind::page, i);
}

void bucket_writer::request(bucket& in, bucket_group& group, bucket_operation::kind what,
                            std::uint32_t page) {
  disk_request request;
  request.what = disk_request::kind::write;
  request.file = in.file;
  if (what == bucket_operation::kind::headers) {
    request.offset_bytes = group.offset_bytes;
    request.memory = group.headers.get();
    request.bytes = disk_block_bytes;
  } else {
    const auto& written = group.pages[page];
    request.offset_bytes = written.record.offset_bytes;
    request.memory = written.write.memory;
    request.bytes = static_cast<std::uint32_t>(in_blocks(written.record.length_bytes));
  }
  ++group.on_its_way;
  requests_.add({.what = what, .in = &in, .group = &group, .page = page}, request);
}

// Functions that handle completions and the passing of time.

void bucket_writer::on_done(const bucket_operation& operation, int error) {
  auto& in = *operation.in;
  switch (operation.what) {
  case bucket_operation::kind::headers:
  case bucket_operation::kind::page: {
    auto& group = *operation.group;
    PEERCACHE_ASSERT(group.on_its_way > 0);
    --group.on_its_way;
    if (error == 0)
      break;
    group.error = error;
    if (operation.what == bucket_operation::kind::headers)
      group.headers_failed = true;
    else
      group.pages[operation.page].error = error;
    break;
  }
  case bucket_operation::kind::sync:
    in.syncing = false;
    on_synced(in, error);
    break;
  case bucket_operation::kind::footer:
    on_footer(in, error);
    break;
  case bucket_operation::kind::read:
    PEERCACHE_ASSERT(false);
  }
}

void bucket_writer::poll(disk_clock::time_point now, std::uint64_t unix_s) {
  now_ = now;
  unix_s_ = unix_s;
  if (given_up_)
    return;
  for (auto left = again_.size(); left != 0; --left) {
    auto page = again_.front();
    again_.pop_front();
    if (const auto status = place(page); status != disk_status::ok)
      fail(page, status);
  }
  if (open_ != nullptr && !open_->opened)
    open_->opened = now;
  if (open_ != nullptr && (hurry_ || now >= *open_->opened + options_.seal_after))
    close_open_bucket();
  // `writing` is a copy, because `advance` removes buckets that are done from `writing_`.
  const auto writing = writing_;
  for (auto* in : writing)
    advance(*in);
}

disk_clock::time_point bucket_writer::next_due() const {
  if (!again_.empty() || !written_.empty())
    return now_;
  auto due = disk_clock::time_point::max();
  if (open_ != nullptr)
    due = open_->opened ? *open_->opened + options_.seal_after : now_;
  for (const auto* in : writing_) {
    // Groups of a failed bucket wait for the completions of its transfers.
    if (!in->groups.empty() && !in->groups.back().started() && !in->failed())
      due = now_;
    if (in->waiting_since && !in->syncing)
      due = std::min(due, *in->waiting_since + options_.sync_after);
  }
  return due;
}

} // namespace peercache::storage
