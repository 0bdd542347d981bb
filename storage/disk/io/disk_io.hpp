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

/// Transfers are whole blocks, at block borders of the file and of memory: O_DIRECT asks for that,
/// and the memory version and the fallback assert it too.
inline constexpr std::uint32_t disk_block_bytes = 4096;

constexpr std::uint64_t in_blocks(std::uint64_t bytes) noexcept {
  return (bytes + disk_block_bytes - 1) / disk_block_bytes * disk_block_bytes;
}

/// Writes that are on the device together have at most so many bytes, but for one that is larger by
/// itself. A device is busy with less; what comes after them waits for all of them: a sync, which
/// has several steps, and a read that somebody waits for.
inline constexpr std::uint64_t writing_bytes_max = 32u << 20;

/// An open file of one `disk_io`, or an open folder, which takes `sync_folder` only.
struct disk_file {
  std::uint32_t value = UINT32_MAX;
  explicit operator bool() const noexcept { return value != UINT32_MAX; }
  bool operator==(const disk_file&) const = default;
};

/// One transfer, or a wait for everything written before it to be durable.
struct disk_request {
  enum class kind : std::uint8_t {
    read,
    write,
    sync,       ///< fdatasync: of writes to the file that had completed when it was submitted.
    sync_folder ///< Makes the folder's entries durable as they were at the submit.
  };

  kind what = kind::read;
  disk_file file;
  std::uint64_t offset_bytes = 0;
  std::byte* memory = nullptr; ///< Read from by a write. Nobody's but the disk's until completed.
  std::uint32_t bytes = 0;
  std::uint64_t tag = 0; ///< The caller's; comes back with the completion.
  /// For a write: a block that goes to `offset_bytes` together with `memory`, which follows it.
  /// Null: no such block.
  std::byte* head = nullptr;
};

/// The number of bytes that a transfer moves.
constexpr std::uint32_t bytes_to_move(const disk_request& request) noexcept {
  return request.bytes + (request.head != nullptr ? disk_block_bytes : 0);
}

constexpr bool is_sync(disk_request::kind what) noexcept {
  return what == disk_request::kind::sync || what == disk_request::kind::sync_folder;
}

/// Whether memory, offset and length are multiples of a block, as `submit` demands; true for a
/// sync.
bool in_whole_blocks(const disk_request& request) noexcept;

struct disk_completion {
  std::uint64_t tag = 0;
  /// 0, or the errno why not. A transfer is whole or failed: what the device did in pieces was put
  /// together, and what lay behind the end of the file is EIO.
  int error = 0;
};

struct disk_folder_entry {
  std::string name;
  std::uint64_t bytes = 0;
  bool folder = false;
};

/// How a file begins.
struct disk_file_head {
  std::string name;
  std::uint64_t bytes = 0;         ///< The length of the whole file.
  std::span<const std::byte> head; ///< Empty when it cannot be read.
  double share = 0;                ///< The share of the folder's entries up to this one.
};

struct disk_space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0; ///< Free for this user; root may have more.
};

/// All that the disk tier asks of a file system, below one folder. Names are relative to it, with
/// '/' between their parts, and never leave it; "" is the folder itself.
///
/// Threads: one owner, but for `wake`, `read_now`, `list` and `read_heads`, which any thread may
/// call. Ownership: of the open files. Memory of a request belongs to its owner and stays put until
/// the request has completed; the destructor waits for that. Errors: `io_failed`, `not_found`,
/// `out_of_space`, `invalid_argument`, with name and reason. A later failure is in the completion.
/// Nothing throws. Durability: bytes that a completed `sync` covered, and a folder's entries as of
/// its last `sync_folder` (the call, or the request that completed), survive a loss of power;
/// anything else may be there, in pieces, or not.
class disk_io {
public:
  virtual ~disk_io() = default;

  /// "io_uring", "posix", "memory".
  virtual std::string_view name() const noexcept = 0;

  // -- files and folders: done when they return

  /// A new file with room for so many bytes, which read as zeros. `refused` when there is one.
  virtual result<disk_file> create(const std::string& file, std::uint64_t bytes) = 0;
  virtual result<disk_file> open(const std::string& file) = 0;
  /// Opens a folder for `sync_folder` requests. `invalid_argument` when it is no folder.
  virtual result<disk_file> open_folder(const std::string& folder) = 0;
  /// @pre none of its requests is on its way
  virtual void close(disk_file file) = 0;
  virtual result<void> truncate(disk_file file, std::uint64_t bytes) = 0;
  virtual result<std::uint64_t> bytes_of(disk_file file) = 0;
  /// Takes the place of a file that has the new name.
  virtual result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual result<void> remove(const std::string& file) = 0;
  /// Makes the folder; no error when it is there.
  virtual result<void> make_folder(const std::string& folder) = 0;
  virtual result<void> sync_folder(const std::string& folder) = 0;
  virtual result<std::vector<disk_folder_entry>> list(const std::string& folder) const = 0;
  virtual result<disk_space> space() const = 0;

  /// Reads at once and need not be aligned, past O_DIRECT: for a start's scan, from many threads.
  /// Returns how many bytes were read, fewer at the end of the file.
  virtual result<std::size_t> read_now(const std::string& file, std::uint64_t offset_bytes,
                                       std::span<std::byte> into) const = 0;

  /// Shows each file of the folder with its length and its first bytes (`head_bytes`, or up to its
  /// end), as `list` and a `read_now` for each would, with fewer steps. In no order; the memory
  /// that the visitor sees is gone when it returns.
  virtual result<void> read_heads(const std::string& folder, std::size_t head_bytes,
                                  const std::function<void(const disk_file_head&)>& visit) const;

  // -- transfers

  /// Transfers to and from this memory are cheaper from now on. An error costs nothing but that.
  /// @pre no request is on its way
  virtual result<void> register_memory(std::span<std::byte> memory) = 0;

  /// Queues a request; it may start at the next `reap`. False, and nothing is queued, when as much
  /// as `requests_on_way` takes is on its way. Syncs wait for the device with nothing to move, so
  /// that those of many files go together beside transfers.
  virtual bool submit(const disk_request& request) = 0;
  /// Starts what is queued; completions that are there, how many. Never waits.
  virtual std::size_t reap(std::span<disk_completion> completions) = 0;
  /// Starts what is queued and sleeps until a completion is there, `wake`, or the time is over.
  virtual void wait(std::chrono::nanoseconds at_most) = 0;
  virtual void wake() noexcept = 0;
  virtual std::uint32_t in_flight() const noexcept = 0;
  virtual std::uint32_t queue_depth() const noexcept = 0;
};

/// The `disk_io` that was taken, and why it is not io_uring, if it is not.
struct opened_disk {
  std::unique_ptr<disk_io> io;
  std::string why_fallback; ///< Empty: io_uring.
};

/// io_uring with O_DIRECT, or blocking calls where io_uring is forbidden or missing. The folder is
/// made when it is not there. Errors: no such folder can be, or it takes no files.
result<opened_disk> open_disk(const std::string& folder, std::uint32_t queue_depth);

} // namespace peercache::storage
