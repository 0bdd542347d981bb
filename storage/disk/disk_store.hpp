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

/// A page to be written. `memory` holds the page in whole blocks, and is the disk's until the event
/// of the write.
struct disk_write {
  page_key key;
  generation gen;
  std::uint64_t checksum = 0; ///< XXH3-64 of the page.
  std::byte* memory = nullptr;
  std::uint32_t length_bytes = 0;
  std::uint64_t tag = 0;
};

/// A page to be read. `memory` has room for the page in whole blocks, and is the disk's until the
/// event of the read.
struct disk_read {
  page_key key;
  std::byte* memory = nullptr;
  std::uint64_t tag = 0;
  // Checksum and length of the page for which `memory` was chosen: if the key has another page by
  // now, the disk tier answers `not_found`. Without a length nothing is compared.
  std::uint64_t checksum = 0;
  /// The exact length of the wanted page. 0: the key's page is wanted whatever its length, and
  /// `memory` has room for the largest page that a store takes.
  std::uint32_t length_bytes = 0;
  bool counts = true; ///< Whether the read counts as a use of the page (`lru`).
};

enum class disk_status : std::uint8_t {
  ok, ///< A write: the page is durable. A read: the page's bytes match its checksum.
  not_found,
  corrupt,   ///< The bytes read are not the page's; the record is dropped.
  io_failed, ///< The device reported an error.
  no_space,  ///< The device is full.
  no_room,   ///< The store's own limit leaves no free room for the page.
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

/// A durable page in a disk store.
struct disk_page {
  page_key key;
  /// The generation of the pool's slot that the page was written from, maybe by an earlier process.
  generation gen;
  std::uint64_t checksum = 0;
  std::uint64_t written_s = 0; ///< When the page was written, in seconds since 1970.
  std::uint32_t length_bytes = 0;
};

/// What a store has found in its files at a start.
struct recovery_report {
  std::uint64_t files = 0;
  std::uint64_t pages = 0;
  std::uint64_t torn = 0;     ///< Records that are incomplete or damaged.
  std::uint64_t foreign = 0;  ///< Records of another node, cluster or version.
  std::uint64_t replaced = 0; ///< Older records of a key that also has a newer record.
  /// Records whose page does not match its checksum; pages are compared with `verify` only.
  std::uint64_t corrupt = 0;
};

struct recovery_options {
  std::uint32_t threads = 2; ///< Threads that the scan may keep busy.
  /// A scan that mostly waits for the device runs this many threads for each of `threads`.
  std::uint32_t waiting_threads = 16;
  bool verify = false; ///< Whether the scan compares every page with its checksum.
  /// Called now and then, by one thread at a time: the pages found so far, and the share of the
  /// scan that is done (0 to 1).
  std::function<void(std::uint64_t pages, double share)> progress;
};

struct disk_store_options {
  record_owner owner;
  std::uint64_t size_bytes = 0; ///< The most bytes that the store's files may take on the device.
  /// True: the page least recently read is evicted first; false: the page first written.
  bool lru = false;
  // Options of single stores; all have `sync_after`.
  std::uint64_t bucket_bytes = 256u << 20;
  std::uint32_t bucket_keys = 500;
  /// How long a written page may wait for other pages before the sync that makes it durable.
  std::chrono::milliseconds sync_after{50};
  /// How long the store `offset` waits at its start for its file to become durable. A device that
  /// takes longer has no tier: the node goes on without.
  std::chrono::seconds first_sync_at_most{60};
  /// How long a bucket may stay open for more pages.
  std::chrono::seconds seal_after{10};
};

struct disk_store_stats {
  /// Bytes of all files of the store: headers, unused blocks and holes included.
  std::uint64_t used_bytes = 0;
  /// The part of `used_bytes` that will be given back soon, or as soon as the device allows: the
  /// pages in it are out of the index for good.
  std::uint64_t leaving_bytes = 0;
  std::uint64_t page_bytes = 0; ///< The lengths of all pages on disk, without padding.
  std::uint64_t pages = 0;
  std::uint64_t files = 0;
  std::uint64_t syncs = 0;
  std::uint64_t corrupt = 0; ///< Reads whose event was `corrupt`.
};

/// Pages that an eviction took out of the index. `finish_eviction` gives their room back.
struct disk_eviction {
  /// Names the eviction for `finish_eviction`; 0: there is no room to give back.
  std::uint64_t ticket = 0;
  std::vector<disk_page> pages;
};

/// Keeps pages in files. Bytes go straight between the caller's memory and the device.
///
/// A write has its event only when the page is durable (after `fdatasync` of the file and a sync of
/// the folder or index that names the record), and only then `find` and `read` know the page.
/// Writing a key again replaces its page.
///
/// Threads: one owner. Time comes as an argument. Ownership: owns files and index; the `disk_io` is
/// lent. Memory of writes and reads is lent until their event; `close` gives all of it back.
/// Errors: events; a device that fails is told apart from a record that is wrong. Invariants: (1)
/// an event `ok` of a read means that the page's bytes match the record's checksum; (2) a page is
/// in the index only when all of it is durable; (3) files take at most `size_bytes`; (4) a file is
/// removed only when nothing reads it.
class disk_store {
public:
  virtual ~disk_store() = default;

  virtual std::string_view name() const noexcept = 0;

  /// Finds the pages that an earlier process left. Call once, before any other method. Blocks.
  /// Calls `found` for each page (one thread at a time) and drops records that are torn, foreign or
  /// replaced. Errors: the folder cannot be read or written.
  virtual result<recovery_report> recover(const recovery_options& options,
                                          const std::function<void(const disk_page&)>& found) = 0;

  /// Takes a page to write. False: too many requests are on their way, the caller asks again after
  /// an event. When the store has no room for the page, an event `no_room` follows at once.
  virtual bool write(const disk_write& page) = 0;
  /// Takes a page to read. False: too many requests are on their way, the caller asks again after
  /// an event. An event `not_found` follows when the store has no page of the key.
  virtual bool read(const disk_read& page) = 0;

  /// The page of this key when it is durable; else null.
  virtual const disk_page* find(const page_key& key) const = 0;
  /// Takes the page of this key out of the index at once. False when there is none.
  virtual bool erase(const page_key& key) = 0;

  /// Phase one of an eviction: takes pages out of the index, by age or use, until finishing the
  /// eviction would free `bytes`. The caller tells the directory before phase two.
  virtual disk_eviction begin_eviction(std::uint64_t bytes) = 0;
  /// Phase two of an eviction: frees the room of its pages, as soon as nobody reads them.
  virtual void finish_eviction(std::uint64_t ticket) = 0;

  /// Calls `visit` for at most `count` pages behind the place `after` (0: from the start), in the
  /// order in which the pages became known. Returns the place of the last page visited, or 0 at the
  /// end. A walk meets every page that exists throughout it, whatever is read, replaced or removed
  /// between its calls.
  virtual std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                             const std::function<void(const disk_page&)>& visit) const = 0;

  /// Submits the requests that wait for room on the device. Call between a reap and the handling of
  /// its completions: comparing the checksums of pages takes time, in which the device works on the
  /// new requests.
  virtual void refill() = 0;
  /// Takes a completion of the device. @pre the request was submitted by this store
  virtual void on_completion(const disk_completion& done) = 0;
  /// Starts whatever has become due by `now`, and appends the events since the last call to
  /// `events`.
  virtual void poll(disk_clock::time_point now, std::uint64_t unix_s,
                    std::vector<disk_event>& events) = 0;
  /// When `poll` next has something to do even if no request completes.
  virtual disk_clock::time_point next_due() const = 0;
  /// Makes open files durable and seals them, for `at_most`; then waits for the requests that the
  /// device has begun, however long they take. When this returns, all memory is the callers' again,
  /// and each write and read that was on its way has its event.
  virtual void close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) = 0;

  virtual disk_store_stats stats() const = 0;
};

class offset_index;

std::unique_ptr<disk_store> make_bucket_store(disk_io& io, const disk_store_options& options);
std::unique_ptr<disk_store> make_file_store(disk_io& io, const disk_store_options& options);
/// Makes a store with one file for all pages.
/// @param index Where the records of the pages lie; not a part of `io`, because RocksDB has files
/// of its own.
std::unique_ptr<disk_store> make_offset_store(disk_io& io, const disk_store_options& options,
                                              std::unique_ptr<offset_index> index);

/// The file, or the folder of files, below the tier's folder that a store keeps its pages in.
std::string_view bucket_store_files() noexcept;
std::string_view file_store_files() noexcept;
std::string_view offset_store_files() noexcept;

} // namespace peercache::storage
