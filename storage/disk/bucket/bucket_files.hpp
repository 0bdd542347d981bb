#pragma once

#include "storage/disk/bucket/bucket.hpp"
#include "storage/disk/io/disk_io.hpp"

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace peercache::storage {

/// The buckets of a store: their files, the bytes that the files take, and which files are open.
///
/// Threads: one owner. Ownership: owns the buckets; a bucket's address stays. Invariant:
/// `used_bytes` never exceeds the limit `size_bytes`, unless the files found at the start did
/// already.
class bucket_files {
public:
  bucket_files(disk_io& io, std::uint64_t size_bytes) : io_(io), size_bytes_(size_bytes) {}
  bucket_files(const bucket_files&) = delete;
  bucket_files& operator=(const bucket_files&) = delete;
  /// @pre no request for a file of these buckets is on its way
  ~bucket_files();

  /// Whether the limit leaves room for a bucket of this many bytes.
  bool has_room(std::uint64_t bytes);
  /// Makes a bucket with a new file whose name is durable: `bytes` long, or as long as there is
  /// room for, but at least `at_least`. Errors: `out_of_space` when the device is full, and
  /// `io_failed`. @pre `has_room(at_least)`
  result<bucket*> create(std::uint64_t bytes, std::uint64_t at_least);
  /// Adds a bucket for a file that a scan of the folder has found.
  bucket& adopt(std::uint64_t id, std::uint64_t file_bytes);
  /// Makes the ids of new buckets larger than `id`.
  void continue_after(std::uint64_t id) noexcept { next_id_ = std::max(next_id_, id + 1); }

  const std::map<std::uint64_t, std::unique_ptr<bucket>>& all() const noexcept { return buckets_; }
  /// @pre there is a bucket of this id
  bucket& at(std::uint64_t id) const { return *buckets_.at(id); }

  /// Opens the bucket's file unless it is open, and closes unused files when more than `open_max`
  /// files would be open.
  result<void> open(bucket& wanted);
  /// Notes that the writing of a bucket has ended: its file may now be closed when nobody uses it.
  void release(bucket& written);
  /// Cuts the bucket's file to `bytes` and gives the device the room behind them back. False: the
  /// file keeps its length.
  bool shrink(bucket& in, std::uint64_t bytes);
  /// Removes the bucket and its file. @pre no read and no writer uses the bucket
  void remove(bucket& gone);

  /// Bytes of all files, including files that should be gone and could not be removed yet.
  std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  /// Bytes of files that could not be removed; the next `create` tries to remove them again.
  std::uint64_t leftover_bytes() const noexcept { return leftover_bytes_; }

  static constexpr std::size_t open_max = 128;

private:
  struct leftover {
    std::string path;
    std::uint64_t bytes = 0;
  };

  std::uint64_t room_bytes() const noexcept;
  void close_some();
  void close(bucket& open);
  bool remove_file(const std::string& path);
  void leave(const std::string& path, std::uint64_t bytes);
  void remove_leftovers();

  disk_io& io_;
  std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::unique_ptr<bucket>> buckets_; ///< Buckets by id, hence by age.
  /// Buckets with an open file that is not written to; the file opened first is in front.
  std::list<bucket*> idle_;
  std::vector<leftover> leftovers_;
  std::uint64_t leftover_bytes_ = 0;
};

} // namespace peercache::storage
