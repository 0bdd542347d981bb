#pragma once

#include "common/page_key.hpp"
#include "common/result.hpp"
#include "storage/disk/record.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::storage {

/// Changes of an offset_index that become durable together, or not at all.
struct offset_index_batch {
  std::vector<page_key> removed;  ///< Keys to remove before `put` is applied.
  std::vector<record_header> put; ///< Sealed record headers to store, each under its key.
  /// The sequence of the next record, to be stored. 0: none is stored, because the index does not
  /// hold all records yet.
  std::uint64_t next_sequence = 0;

  bool empty() const noexcept { return removed.empty() && put.empty(); }
};

/// Where the records of an `offset_store` lie: key -> record header, kept beside the pages so that
/// a start need not read the pages' file. The index can be made again from that file.
///
/// Threads: one owner; `wake` of a commit is called by any. Errors: results.
/// Durability: a batch is durable when `committed` says so; before that, either all of the batch is
/// durable or nothing.
class offset_index {
public:
  /// Gets one record header as it was put. Called by several threads, each with its own number
  /// `thread`.
  using visit = std::function<void(std::uint32_t thread, const page_key& key,
                                   std::span<const std::byte> raw)>;

  virtual ~offset_index() = default;

  /// The most bytes that the index needs beside the pages, in a tier of `size_bytes`.
  virtual std::uint64_t room_bytes(std::uint64_t size_bytes) const = 0;

  /// Calls `each` for all records. @return The next sequence; nothing when records may be missing,
  /// because the index is new or was only partly made again: then `each` was called for some
  /// records, all or none, and these calls do not count. Errors: the index is damaged; `clear`
  /// mends that.
  virtual result<std::optional<std::uint64_t>> load(std::uint32_t threads, const visit& each) = 0;
  /// Makes the index empty and new.
  virtual result<void> clear() = 0;
  /// Commits the batch, which is durable when this returns. @pre no commit is on its way
  virtual result<void> commit_now(const offset_index_batch& batch) = 0;

  /// Starts to commit the batch; `wake` is called, by any thread, when the commit has ended and
  /// `committed` has its result.
  /// @pre no commit is on its way
  virtual void commit(offset_index_batch batch, std::function<void()> wake) = 0;
  /// How the commit has ended; nothing as long as it is on its way, or when its result was told
  /// already. After an error the batch may be durable or not.
  virtual std::optional<result<void>> committed() = 0;
};

/// Opens an index in RocksDB, in this folder of the file system, which is made when it is not
/// there. A damaged index is thrown away and an empty one is made. Errors: the folder cannot be
/// used.
result<std::unique_ptr<offset_index>> open_rocks_index(const std::string& folder);

} // namespace peercache::storage
