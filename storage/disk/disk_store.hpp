#pragma once

#include "common/guards.hpp"
#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"
#include "storage/disk/io/disk_io.hpp"
#include "storage/disk/record.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace peercache::storage {

using disk_clock = std::chrono::steady_clock;

/// A page to be kept. `memory` holds it in whole blocks, and is the disk's until the write's event.
struct disk_write {
  page_key key;
  generation gen;
  std::uint64_t checksum = 0; ///< XXH3-64 of the page.
  std::byte* memory = nullptr;
  std::uint32_t length_bytes = 0;
  std::uint64_t tag = 0;
};

/// A page wanted back. `memory` has room for it in whole blocks, and is the disk's until the read's
/// event.
struct disk_read {
  page_key key;
  std::byte* memory = nullptr;
  std::uint64_t tag = 0;
  // The page that it was when `memory` was chosen: the tier finds no other one.
  std::uint64_t checksum = 0;
  std::uint32_t length_bytes = 0; ///< 0: any, `memory` has room for all.
  bool counts = true;             ///< Whether the read counts as a use (`lru`).
};

enum class disk_status : std::uint8_t {
  ok, ///< Written: durable. Read: the page, its checksum compared.
  not_found,
  corrupt,   ///< The bytes are not the page's; the record is dropped.
  io_failed, ///< The device said so.
  no_space,  ///< The device is full, or no room is free in the store.
  refused    ///< The store is closing, or does not take this page.
};

/// The outcome of a write or a read; outcomes come in any order.
struct disk_event {
  enum class kind : std::uint8_t { written, read };
  kind what = kind::read;
  disk_status status = disk_status::ok;
  std::uint64_t tag = 0;
  page_key key;
};

/// A page that is on disk, durable.
struct disk_page {
  page_key key;
  generation gen; ///< The generation of the slot that it came from, in whatever process.
  std::uint64_t checksum = 0;
  std::uint64_t written_s = 0; ///< Since 1970.
  std::uint32_t length_bytes = 0;
};

/// Counts of a start's scan.
struct recovery_report {
  std::uint64_t files = 0;
  std::uint64_t pages = 0;
  std::uint64_t torn = 0;     ///< Records that are not whole.
  std::uint64_t foreign = 0;  ///< Records of another node, cluster or version.
  std::uint64_t replaced = 0; ///< Older records of a key that has a newer one.
  std::uint64_t corrupt = 0;  ///< Records whose payload differs; looked for with `verify` only.
};

struct recovery_options {
  std::uint32_t threads = 2;
  bool verify = false; ///< Payloads too.
  /// Called now and then by one of the threads, one at a time.
  std::function<void(std::uint64_t pages, double share)> progress;
};

struct disk_store_options {
  record_owner owner;
  std::uint64_t size_bytes = 0; ///< The most that its files may take, in real bytes.
  bool lru = false;             ///< Pages go least recently read first; false: first written first.
  // bucket
  std::uint64_t bucket_bytes = 256u << 20;
  std::uint32_t bucket_keys = 500;
  /// How long a written page may wait for others before it is made durable.
  std::chrono::milliseconds sync_after{50};
  /// How long a bucket may stay open.
  std::chrono::seconds seal_after{10};
};

struct disk_store_stats {
  std::uint64_t used_bytes = 0; ///< Bytes of all files: headers, blocks and holes included.
  /// Part of `used_bytes` that is given back soon, or as soon as the device lets it: its pages are
  /// out of the index for good.
  std::uint64_t leaving_bytes = 0;
  std::uint64_t page_bytes = 0; ///< Exact lengths of the pages that are on disk.
  std::uint64_t pages = 0;
  std::uint64_t files = 0;
  std::uint64_t syncs = 0;
  std::uint64_t corrupt = 0; ///< Reads and writes that ended as `corrupt`.
};

/// Pages taken out of the index, whose room is given back by `finish_eviction`.
struct disk_eviction {
  std::uint64_t ticket = 0; ///< 0: nothing was chosen.
  std::vector<disk_page> pages;
};

/// How pages lie in files. Bytes go straight between the caller's memory and the device.
///
/// A write becomes an event only when it is durable (`fdatasync`, and what names its file), and
/// only then `find` and `read` know the page. The same key again replaces it.
///
/// Threads: one owner. Time comes as an argument. Ownership: of files and index; the `disk_io` is
/// lent. Memory of writes and reads is lent until their event; `close` gives all of it back.
/// Errors: events; a device that fails is told apart from a record that is wrong.
/// Invariants: (1) an event `ok` of a read means the bytes' checksum was the record's; (2) a page
/// is in the index only when all of it is durable; (3) files take at most `size_bytes`; (4) a file
/// goes only when nothing reads it.
class disk_store {
public:
  virtual ~disk_store() = default;

  virtual std::string_view name() const noexcept = 0;

  /// Once, before anything else. Blocks. Calls `found` for each page there is (one thread at a
  /// time), drops what is torn, foreign or replaced. Errors: the folder cannot be read or written.
  virtual result<recovery_report> recover(const recovery_options& options,
                                          const std::function<void(const disk_page&)>& found) = 0;

  /// Takes a page to write. False: too many requests are on their way, the caller asks again after
  /// an event. Room on disk is checked here too: an event `no_space` follows at once when it is
  /// missing.
  virtual bool write(const disk_write& page) = 0;
  /// Takes a page to read; false as in `write`. An event `not_found` follows when the page is not
  /// there.
  virtual bool read(const disk_read& page) = 0;

  /// The page of this key, when it is durable; else null.
  virtual const disk_page* find(const page_key& key) const = 0;
  /// The page is out of the index at once. False when it was not there.
  virtual bool erase(const page_key& key) = 0;

  /// Phase one of an eviction: pages go out of the index, by age or use, until `bytes` would be
  /// free. The caller tells the directory before phase two.
  virtual disk_eviction begin_eviction(std::uint64_t bytes) = 0;
  /// Phase two of an eviction: the room of its pages is free, as soon as nobody reads it.
  virtual void finish_eviction(std::uint64_t ticket) = 0;

  /// Calls `visit` for the next pages behind the place `after` (0: from the start), at most
  /// `count`, in the order in which they became known. The last one's place, or 0 at the end. A
  /// walk meets every page that is there throughout, whatever is read, replaced or removed between
  /// its calls.
  virtual std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                             const std::function<void(const disk_page&)>& visit) const = 0;

  /// Hands the device what waits for room on it. Worth a call between a reap and the completions
  /// that it brought: comparing the checksums of pages takes time, in which the device works on.
  virtual void refill() = 0;
  /// Takes a completion of the device. @pre the request was this store's
  virtual void on_completion(const disk_completion& done) = 0;
  /// Starts whatever has become due by `now`; events since the last call are appended.
  virtual void poll(disk_clock::time_point now, std::uint64_t unix_s,
                    std::vector<disk_event>& events) = 0;
  /// When `poll` has something to do though nothing completes.
  virtual disk_clock::time_point next_due() const = 0;
  /// Makes open files durable and seals them. Blocks at most `at_most`; then all memory is the
  /// callers' again, and each write and read that was on its way has its event.
  virtual void close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) = 0;

  virtual disk_store_stats stats() const = 0;
};

class offset_index;

std::unique_ptr<disk_store> make_bucket_store(disk_io& io, const disk_store_options& options);
std::unique_ptr<disk_store> make_file_store(disk_io& io, const disk_store_options& options);
/// @param index Where its records lie; not a part of `io`, because RocksDB has files of its own.
std::unique_ptr<disk_store> make_offset_store(disk_io& io, const disk_store_options& options,
                                              std::unique_ptr<offset_index> index);

} // namespace peercache::storage
