#pragma once

#include "common/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::storage {

/// The size of a block. Transfers are whole blocks, at block borders of the file and of memory:
/// O_DIRECT asks for that, and the versions of disk_io that do without O_DIRECT assert it too.
inline constexpr std::uint32_t disk_block_bytes = 4096;

constexpr std::uint64_t in_blocks(std::uint64_t bytes) noexcept {
  return (bytes + disk_block_bytes - 1) / disk_block_bytes * disk_block_bytes;
}

/// The most bytes of writes that are on the device together, unless a single write is larger. This
/// many bytes keep a device busy, and with more of them later requests would wait longer: a sync,
/// which has several steps, and a read that somebody waits for.
inline constexpr std::uint64_t writing_bytes_max = 32u << 20;

/// An open file of one `disk_io`, or an open folder, which takes `sync_folder` only.
struct disk_file {
  std::uint32_t value = UINT32_MAX;
  explicit operator bool() const noexcept { return value != UINT32_MAX; }
  bool operator==(const disk_file&) const = default;
};

/// A request to a `disk_io`: a transfer, or a sync.
struct disk_request {
  enum class kind : std::uint8_t {
    read,
    write,
    /// fdatasync: makes those writes to the file durable that had completed before the submit.
    sync,
    sync_folder ///< Makes the folder's entries durable as they were at the submit.
  };

  kind what = kind::read;
  disk_file file;
  std::uint64_t offset_bytes = 0;
  /// The memory to write from or read into; nobody but the disk uses it until the request has
  /// completed.
  std::byte* memory = nullptr;
  std::uint32_t bytes = 0;
  /// The caller's own number for the request, which comes back with the completion.
  std::uint64_t tag = 0;
  /// For a write: a block that is written to `offset_bytes`, and `memory` behind it in the same
  /// transfer. Null: there is no such block.
  std::byte* head = nullptr;
};

/// The number of bytes that a transfer moves, head included.
constexpr std::uint32_t bytes_to_move(const disk_request& request) noexcept {
  return request.bytes + (request.head != nullptr ? disk_block_bytes : 0);
}

constexpr bool is_sync(disk_request::kind what) noexcept {
  return what == disk_request::kind::sync || what == disk_request::kind::sync_folder;
}

/// Whether memory, offset and length of a transfer are multiples of a block, as `submit` demands;
/// true for a sync.
bool in_whole_blocks(const disk_request& request) noexcept;

struct disk_completion {
  std::uint64_t tag = 0;
  /// 0, or the errno why the request failed. A transfer is whole or failed: pieces in which the
  /// device moved it are put together, and a read beyond the end of the file fails with EIO.
  int error = 0;
};

struct disk_folder_entry {
  std::string name;
  std::uint64_t bytes = 0;
  bool folder = false;
};

/// The beginning of a file, as `read_heads` shows it.
struct disk_file_head {
  std::string name;
  std::uint64_t bytes = 0;         ///< The length of the whole file.
  std::span<const std::byte> head; ///< The file's first bytes; empty when the file cannot be read.
  /// The share of the folder's files that were visited by now, this one included.
  double share = 0;
};

struct disk_space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0; ///< Bytes that are free for this user; root may have more.
};

/// All that the disk tier asks of a file system, below one folder. Names are relative to this
/// folder, with '/' between their parts, and never lead out of it; "" is the folder itself.
///
/// Threads: one owner, but for `wake`, `read_now`, `list` and `read_heads`, which any thread may
/// call. Ownership: owns the open files. Memory of a request belongs to its owner and stays put
/// until the request has completed; the destructor waits for that. Errors: `io_failed`,
/// `not_found`, `out_of_space`, `invalid_argument`, with name and reason. A later failure is in the
/// completion. Nothing throws. Durability: bytes that a completed `sync` covered, and a folder's
/// entries as of its last `sync_folder` (the call, or the request that completed), survive a loss
/// of power; anything else may survive, in pieces, or not.
class disk_io {
public:
  virtual ~disk_io() = default;

  /// The version of disk_io: "io_uring", "posix", "memory".
  virtual std::string_view name() const noexcept = 0;

  // Calls for files and folders; these block until they are done.

  /// Makes a new file with room for `bytes`, which read as zeros. `refused` when a file has this
  /// name.
  virtual result<disk_file> create(const std::string& file, std::uint64_t bytes) = 0;
  virtual result<disk_file> open(const std::string& file) = 0;
  /// Opens a folder for `sync_folder` requests. `invalid_argument` when the name is not a folder's.
  virtual result<disk_file> open_folder(const std::string& folder) = 0;
  /// @pre no request for the file is on its way
  virtual void close(disk_file file) = 0;
  virtual result<void> truncate(disk_file file, std::uint64_t bytes) = 0;
  virtual result<std::uint64_t> bytes_of(disk_file file) = 0;
  /// Renames a file; a file that has the name `to` is replaced.
  virtual result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual result<void> remove(const std::string& file) = 0;
  /// Makes the folder; no error when it exists already.
  virtual result<void> make_folder(const std::string& folder) = 0;
  virtual result<void> sync_folder(const std::string& folder) = 0;
  virtual result<std::vector<disk_folder_entry>> list(const std::string& folder) const = 0;
  virtual result<disk_space> space() const = 0;

  /// Reads a part of a file at once: for a start's scan. Offset and length need not be multiples of
  /// a block, because O_DIRECT is not used. Threads: any. Returns how many bytes were read; these
  /// are fewer than asked for at the end of the file.
  virtual result<std::size_t> read_now(const std::string& file, std::uint64_t offset_bytes,
                                       std::span<std::byte> into) const = 0;

  /// Shows each file of the folder with its length and its first bytes (`head_bytes`, or up to the
  /// end of the file), as `list` and a `read_now` for each would, in fewer steps and in no order.
  /// The memory that `visit` sees is valid until it returns.
  virtual result<void> read_heads(const std::string& folder, std::size_t head_bytes,
                                  const std::function<void(const disk_file_head&)>& visit) const;

  // Calls for requests and their completions.

  /// Makes transfers to and from this memory cheaper from now on. After an error such transfers
  /// work, but are not cheaper.
  ///
  /// @pre no request is on its way
  virtual result<void> register_memory(std::span<std::byte> memory) = 0;

  /// Queues a request; it may start at the next `reap`. False, and nothing is queued, when as many
  /// requests are on their way as `requests_on_way` allows. Syncs have a limit of their own,
  /// because they move nothing: so the syncs of many files wait for the device together, beside
  /// transfers.
  virtual bool submit(const disk_request& request) = 0;
  /// Starts the queued requests, and stores completions that have come; returns how many. Never
  /// waits.
  virtual std::size_t reap(std::span<disk_completion> completions) = 0;
  /// Starts the queued requests and sleeps until a completion has come, `wake` is called, or the
  /// time has passed.
  virtual void wait(std::chrono::nanoseconds at_most) = 0;
  virtual void wake() noexcept = 0;
  virtual std::uint32_t in_flight() const noexcept = 0;
  virtual std::uint32_t queue_depth() const noexcept = 0;
};

/// What `open_disk` has opened.
struct opened_disk {
  std::unique_ptr<disk_io> io;
  std::string why_fallback; ///< Why `io` does not use io_uring; empty when it does.
};

/// Opens a folder with io_uring and O_DIRECT, or with blocking calls where io_uring is forbidden or
/// missing. Makes the folder when it is not there. Errors: the folder cannot be made, or takes no
/// files.
result<opened_disk> open_disk(const std::string& folder, std::uint32_t queue_depth);

} // namespace peercache::storage
