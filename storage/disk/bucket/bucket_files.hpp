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

/// The buckets there are, what their files take, and which of these are open.
///
/// Threads: one owner. Ownership: of the buckets; their addresses stay. Invariant: `used_bytes`
/// never exceeds the limit, as long as what was found at the start did not.
class bucket_files {
public:
  bucket_files(disk_io& io, std::uint64_t size_bytes) : io_(io), size_bytes_(size_bytes) {}
  bucket_files(const bucket_files&) = delete;
  bucket_files& operator=(const bucket_files&) = delete;
  /// @pre none of their requests is on its way
  ~bucket_files();

  /// A bucket with a new file whose name is durable, `bytes` long, or as long as there is room for,
  /// but at least `at_least`. Errors: `out_of_space`, ours or the device's, and `io_failed`.
  result<bucket*> create(std::uint64_t bytes, std::uint64_t at_least);
  /// Adds a bucket whose file was found.
  bucket& adopt(std::uint64_t id, std::uint64_t file_bytes);
  /// Ids of new buckets are larger than this one.
  void continue_after(std::uint64_t id) noexcept { next_id_ = std::max(next_id_, id + 1); }

  const std::map<std::uint64_t, std::unique_ptr<bucket>>& all() const noexcept { return buckets_; }
  /// @pre there is one
  bucket& at(std::uint64_t id) const { return *buckets_.at(id); }

  /// Opens its file unless it is open. Of files that nobody uses, `open_max` stay open.
  result<void> open(bucket& wanted);
  /// Ends the writing of a bucket: its file may be closed when nobody uses it.
  void release(bucket& written);
  /// Gives back what lies behind. False: the file stays as long as it is.
  bool shrink(bucket& in, std::uint64_t bytes);
  /// @pre nobody uses it
  void remove(bucket& gone);

  /// Bytes of all files, those included that could not be removed yet.
  std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  /// Bytes of files that could not be removed yet: each new bucket tries again.
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
  std::map<std::uint64_t, std::unique_ptr<bucket>> buckets_; ///< By age.
  std::list<bucket*> idle_; ///< Open, not written to; the one opened first in front.
  std::vector<leftover> leftovers_;
  std::uint64_t leftover_bytes_ = 0;
};

} // namespace peercache::storage
