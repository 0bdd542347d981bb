#include "storage/disk/bucket/bucket_files.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"

#include <algorithm>

namespace peercache::storage {

bucket_files::~bucket_files() {
  for (const auto& [id, bucket] : buckets_)
    if (bucket->file)
      io_.close(bucket->file);
}

std::uint64_t bucket_files::room_bytes() const noexcept {
  const auto room = size_bytes_ - std::min(used_bytes_, size_bytes_);
  return room / disk_block_bytes * disk_block_bytes;
}

bool bucket_files::has_room(std::uint64_t bytes) {
  remove_leftovers();
  return bytes <= room_bytes();
}

result<bucket*> bucket_files::create(std::uint64_t bytes, std::uint64_t at_least) {
  PEERCACHE_ASSERT(next_id_ <= bucket_id_max && at_least <= room_bytes());
  bytes = std::max(std::min(bytes, room_bytes()), at_least);
  const auto id = next_id_++;
  const auto path = bucket_path(id);
  auto file = io_.create(path, bytes);
  if (!file)
    return file.error();
  // The new file's name has to be durable before any page in the file is called durable.
  if (auto synced = io_.sync_folder(std::string(bucket_folder)); !synced) {
    io_.close(*file);
    if (!remove_file(path)) {
      used_bytes_ += bytes;
      leave(path, bytes);
    }
    return synced.error();
  }
  auto& made = adopt(id, bytes);
  made.file = *file;
  return &made;
}

bucket& bucket_files::adopt(std::uint64_t id, std::uint64_t file_bytes) {
  auto& found = buckets_[id];
  PEERCACHE_ASSERT(!found);
  found = std::make_unique<bucket>();
  found->id = id;
  found->file_bytes = file_bytes;
  used_bytes_ += file_bytes;
  continue_after(id);
  return *found;
}

result<void> bucket_files::open(bucket& wanted) {
  if (wanted.file)
    return {};
  close_some();
  auto file = io_.open(bucket_path(wanted.id));
  if (!file)
    return file.error();
  wanted.file = *file;
  idle_.push_back(&wanted);
  return {};
}

void bucket_files::release(bucket& written) {
  PEERCACHE_ASSERT(written.file);
  close_some();
  idle_.push_back(&written);
}

void bucket_files::close_some() {
  for (auto at = idle_.begin(); at != idle_.end() && idle_.size() >= open_max;) {
    auto& open = **at++;
    if (open.users == 0)
      close(open);
  }
}

void bucket_files::close(bucket& open) {
  if (!open.file)
    return;
  idle_.remove(&open);
  io_.close(open.file);
  open.file = {};
}

bool bucket_files::shrink(bucket& in, std::uint64_t bytes) {
  PEERCACHE_ASSERT(in.file && bytes <= in.file_bytes);
  if (!io_.truncate(in.file, bytes))
    return false;
  used_bytes_ -= in.file_bytes - bytes;
  in.file_bytes = bytes;
  return true;
}

void bucket_files::remove(bucket& gone) {
  PEERCACHE_ASSERT(gone.users == 0 && gone.at == bucket::phase::done);
  close(gone);
  const auto path = bucket_path(gone.id);
  if (remove_file(path))
    used_bytes_ -= gone.file_bytes;
  else
    leave(path, gone.file_bytes);
  buckets_.erase(gone.id);
}

bool bucket_files::remove_file(const std::string& path) {
  const auto removed = io_.remove(path);
  return removed || removed.error().code == errc::not_found;
}

void bucket_files::leave(const std::string& path, std::uint64_t bytes) {
  if (leftovers_.empty())
    log::warn("disk: {} stays, and takes its room, until it can be removed", path);
  leftovers_.push_back({path, bytes});
  leftover_bytes_ += bytes;
}

void bucket_files::remove_leftovers() {
  std::erase_if(leftovers_, [&](const leftover& file) {
    if (!remove_file(file.path))
      return false;
    used_bytes_ -= file.bytes;
    leftover_bytes_ -= file.bytes;
    return true;
  });
}

} // namespace peercache::storage
