#pragma once

#include "storage/disk/offset/block_extents.hpp"
#include "storage/disk/offset/offset_index.hpp"
#include "storage/disk/offset/offset_scan.hpp"
#include "storage/disk/record_store.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::storage {

/// Keeps all pages in one preallocated file, `pages.data`, in which each record has an extent: one
/// block with its header, then the page. An `offset_index` says which records there are; from the
/// headers in the file the index can be made again when it is lost.
///
/// The file has `size_bytes`, less what the index needs, or as much as the device has room for.
/// `used_bytes` counts all of `size_bytes` that is not free in the file.
///
/// A record becomes a page when first its extent and then its place in the index are durable.
/// Writes that end while a sync or a commit is on its way share the next one.
///
/// Threads, ownership, errors: as disk_store.
/// Invariants: (1) the index names an extent only when all of it is durable; (2) an extent is used
/// again only when the index durably no longer names it, and nobody reads it.
class offset_store final : public record_store {
public:
  offset_store(disk_io& io, const disk_store_options& options, std::unique_ptr<offset_index> index);
  /// Closes the store and waits for the requests that the device has begun.
  ~offset_store() override;

  std::string_view name() const noexcept override { return "offset"; }
  result<recovery_report> recover(const recovery_options& options,
                                  const std::function<void(const disk_page&)>& found) override;
  bool write(const disk_write& page) override;
  bool read(const disk_read& page) override;
  disk_eviction begin_eviction(std::uint64_t bytes) override;
  void poll(disk_clock::time_point now, std::uint64_t unix_s,
            std::vector<disk_event>& events) override;
  void on_completion(const disk_completion& done) override;
  disk_clock::time_point next_due() const override;
  disk_store_stats stats() const override;

  /// The most writes at a time that are not done.
  static constexpr std::uint32_t writes_max = 1024;
  static constexpr std::uint32_t reads_max = 1024;

private:
  /// The index stores a next sequence that is larger by this than the real one, so that records
  /// which were written and never committed are older than those of the next start. A process
  /// commits when it starts and at the latest after `writes_max` writes.
  static constexpr std::uint64_t sequence_margin = 65536;
  /// Tag of the request by which `recover` makes the file durable.
  static constexpr std::uint64_t first_sync_tag = ~std::uint64_t{0};

  static std::uint64_t blocks_of(const disk_page& page) noexcept {
    return 1 + in_blocks(page.length_bytes) / disk_block_bytes;
  }

  // Functions for writes.
  std::optional<std::uint64_t> find_room(const disk_page& page);
  bool syncing() const noexcept override { return sync_on_its_way_; }
  void start_sync();
  void on_sync(std::uint32_t slot, int error_number) override;
  void drop_write(std::uint32_t slot, disk_status status) override;

  // Functions for commits of the index.
  bool commit_due() const noexcept;
  void start_commit();
  void add_removals(offset_index_batch& batch);
  void add_records(offset_index_batch& batch);
  void finish_commit();
  void publish(std::uint32_t slot);
  void undo(std::uint32_t slot, disk_status status);

  // Functions for the free room in the file, and for closing.
  void leaves(const entry& record) override;
  void collect_released();
  void give_back(const entry& record);
  bool busy() const noexcept override;
  void abandon() override;

  // Functions for recovery.
  result<bool> open_file();
  result<void> create_file(std::uint64_t bytes);
  result<void> fit_file(std::uint64_t bytes);
  result<void> sync_file();
  result<offset_scan_result> look(const recovery_options& options, bool& rebuilt);
  result<void> remember(const offset_scan_result& scanned, bool rebuilt);
  void adopt(const offset_scan_result& scanned, const recovery_options& options,
             const std::function<void(const disk_page&)>& found);

  // Members that are constant after construction.
  const std::unique_ptr<offset_index> places_;
  const std::uint64_t reserved_bytes_; ///< Bytes of `size_bytes` that are left to the index.
  // Members that the owner's thread uses.
  disk_file file_;

  block_extents free_; ///< Blocks that may be written to.
  /// The blocks of `free_`, and blocks that will become free without another eviction.
  block_extents soon_;
  /// Size, in blocks, of the largest extent for which there was no hole; 0 as soon as a hole of
  /// that size exists.
  std::uint64_t refused_blocks_ = 0;
  /// Free blocks in holes of fewer than `refused_blocks_`; they count as used, so that the tier
  /// evicts.
  std::uint64_t holes_blocks_ = 0;

  // A write moves from `written_` to `syncing_`, `synced_` and `committing_`.
  slots syncing_;
  bool sync_on_its_way_ = false;
  slots synced_;
  slots committing_;

  /// Records that have to be removed from the index before their extents are free.
  std::vector<entry> to_remove_;
  std::vector<entry> removing_;
  bool commit_on_its_way_ = false;
  /// After a failed commit: when the next one may start.
  disk_clock::time_point commit_not_before_{};
};

} // namespace peercache::storage
