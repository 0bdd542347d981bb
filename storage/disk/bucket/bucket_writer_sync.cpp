// How a bucket_writer makes groups durable and ends buckets.

#include "common/assert.hpp"
#include "storage/disk/bucket/bucket_writer.hpp"
#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

constexpr std::size_t spare_max = 256;

} // namespace

void bucket_writer::advance(bucket& in) {
  drop_failed(in);
  if (!in.failed())
    for (auto& group : in.groups)
      if (!group.started())
        start(in, group);
  sync_written(in);
  seal(in);
}

void bucket_writer::drop_failed(bucket& in) {
  const auto first = std::find_if(in.groups.begin(), in.groups.end(),
                                  [&](const auto& group) { return in.unsafe || group.error != 0; });
  if (first == in.groups.end())
    return;
  if (open_ == &in)
    close_open_bucket();
  if (std::any_of(first, in.groups.end(), [](const auto& group) { return group.on_its_way != 0; }))
    return;
  // A sync that runs covers only groups before the first one that failed, and none of an unsafe
  // bucket: `on_synced` still needs the groups that its sync covers.
  PEERCACHE_ASSERT(static_cast<std::size_t>(first - in.groups.begin()) >= in.groups_syncing);
  in.end_bytes = std::min(in.end_bytes, first->offset_bytes);
  std::for_each(first, in.groups.end(), [&](auto& group) { fail_or_retry(group); });
  in.groups.erase(first, in.groups.end());
}

void bucket_writer::sync_written(bucket& in) {
  // Groups behind those whose sync failed are never durable in this bucket: a scan would not get
  // past the groups that are lost. `drop_failed` has their pages written elsewhere.
  if (in.syncing || in.unsafe)
    return;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  std::size_t pages = 0;
  for (; count < in.groups.size() && in.groups[count].written(); ++count) {
    bytes += in.groups[count].end_bytes - in.groups[count].offset_bytes;
    pages += in.groups[count].pages.size();
  }
  if (count == 0)
    return;
  if (!in.waiting_since)
    in.waiting_since = now_;
  const bool others_come = count < in.groups.size();
  if (others_come && !hurry_ && bytes < sync_bytes && pages < sync_pages &&
      now_ < *in.waiting_since + options_.sync_after)
    return;
  in.groups_syncing = count;
  in.waiting_since.reset();
  sync(in);
}

void bucket_writer::sync(bucket& in) {
  PEERCACHE_ASSERT(!in.syncing && in.groups_syncing <= in.groups.size());
  in.syncing = true;
  ++syncs_;
  disk_request request;
  request.what = disk_request::kind::sync;
  request.file = in.file;
  requests_.add({.what = bucket_operation::kind::sync, .in = &in}, request);
}

void bucket_writer::on_synced(bucket& in, int error) {
  if (in.at == bucket::phase::footer) {
    // A bucket whose footer is not durable keeps all its pages and is only slower to scan, so a
    // failed sync of the footer is not an error.
    finish(in);
    return;
  }
  for (; in.groups_syncing != 0; --in.groups_syncing) {
    auto& group = in.groups.front();
    if (error == 0) {
      keep(in, group);
    } else {
      in.unsafe = true;
      in.end_bytes = std::min(in.end_bytes, group.offset_bytes);
      for (auto& page : group.pages)
        fail(page, status_of(error));
    }
    in.groups.pop_front();
  }
  if (in.unsafe && open_ == &in)
    close_open_bucket();
}

// Functions that end a bucket.

void bucket_writer::seal(bucket& in) {
  if (in.at != bucket::phase::closing || !in.groups.empty() || in.syncing)
    return;
  if (in.records.empty() || in.unsafe) {
    files_.shrink(in, in.end_bytes);
    finish(in);
    return;
  }
  in.at = bucket::phase::footer;
  in.footer = make_footer(in.id, options_.owner, in.records, in.end_bytes);
  disk_request request;
  request.what = disk_request::kind::write;
  request.file = in.file;
  request.offset_bytes = in.end_bytes;
  request.memory = in.footer.get();
  request.bytes = static_cast<std::uint32_t>(footer_bytes(in.records.size()));
  requests_.add({.what = bucket_operation::kind::footer, .in = &in}, request);
}

void bucket_writer::on_footer(bucket& in, int error) {
  const bool written = error == 0;
  files_.shrink(in, in.end_bytes + (written ? footer_bytes(in.records.size()) : 0));
  if (written)
    sync(in);
  else
    finish(in);
}

void bucket_writer::finish(bucket& in) {
  PEERCACHE_ASSERT(in.at != bucket::phase::done && in.groups.empty());
  in.at = bucket::phase::done;
  in.footer.reset();
  in.records = {};
  files_.release(in);
  std::erase(writing_, &in);
  done_.push_back(&in);
}

void bucket_writer::seal_all() {
  hurry_ = true;
}

void bucket_writer::give_up() {
  given_up_ = true;
  for (auto& page : again_)
    fail(page, disk_status::refused);
  again_.clear();
  open_ = nullptr;
  while (!writing_.empty()) {
    auto& in = *writing_.back();
    for (auto& group : in.groups) {
      PEERCACHE_ASSERT(group.on_its_way == 0);
      for (auto& page : group.pages)
        fail(page, page.error != 0 ? status_of(page.error) : disk_status::refused);
    }
    in.groups.clear();
    finish(in);
  }
}

// Functions for the outcomes of pages.

void bucket_writer::keep(bucket& in, bucket_group& group) {
  for (auto& page : group.pages) {
    in.records.push_back(page.record);
    written_.push_back({page.write, page.record, &in, disk_status::ok});
  }
  PEERCACHE_ASSERT(pages_on_way_ >= group.pages.size());
  pages_on_way_ -= static_cast<std::uint32_t>(group.pages.size());
  if (spare_.size() < spare_max)
    spare_.push_back(std::move(group.headers));
}

void bucket_writer::fail(bucket_page& page, disk_status status) {
  PEERCACHE_ASSERT(pages_on_way_ > 0);
  --pages_on_way_;
  written_.push_back({page.write, {}, nullptr, status});
}

void bucket_writer::fail_or_retry(bucket_group& group) {
  for (auto& page : group.pages) {
    const int error = group.headers_failed ? group.error : page.error;
    if (error != 0 || page.attempts >= attempts_max) {
      // Without an errno only transfers of other pages failed.
      fail(page, error != 0 ? status_of(error) : disk_status::io_failed);
      continue;
    }
    ++page.attempts;
    again_.push_back(page);
  }
}

std::vector<written_page> bucket_writer::take_written() {
  return std::exchange(written_, {});
}

std::vector<bucket*> bucket_writer::take_done() {
  for (auto* in : done_) {
    PEERCACHE_ASSERT(in->users > 0); // The writer still counts among the bucket's users.
    --in->users;
  }
  return std::exchange(done_, {});
}

} // namespace peercache::storage
