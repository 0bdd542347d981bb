#pragma once

#include "storage/disk/block_extents.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/header_blocks.hpp"
#include "storage/disk/offset_index.hpp"
#include "storage/disk/offset_scan.hpp"
#include "storage/disk/page_reads.hpp"
#include "storage/disk/record_table.hpp"
#include "storage/disk/slot_list.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::storage {

/// One preallocated file, `pages.data`, in which each record has an extent: one block with its
/// header, then the page. An `offset_index` says which records there are; the headers in the file
/// are for the day when the index is lost.
///
/// The file has `size_bytes`, less what the index needs, or as much as the device has room for;
/// `used_bytes` is then what is missing of `size_bytes`, too.
///
/// A record becomes a page when its extent is durable and then its place in the index is. Writes
/// that end while a sync or a commit is on its way share the next one.
///
/// Threads, ownership, errors: as disk_store.
/// Invariants: (1) the index names an extent only when all of it is durable; (2) an extent is used
/// again only when the index does not name it any more, durably, and nobody reads it.
class offset_store final : public disk_store {
public:
  offset_store(disk_io& io, const disk_store_options& options, std::unique_ptr<offset_index> index);
  /// Waits for what is on its way.
  ~offset_store() override;

  std::string_view name() const noexcept override { return "offset"; }
  result<recovery_report> recover(const recovery_options& options,
                                  const std::function<void(const disk_page&)>& found) override;
  bool write(const disk_write& page) override;
  bool read(const disk_read& page) override;
  const disk_page* find(const page_key& key) const override;
  bool erase(const page_key& key) override;
  disk_eviction begin_eviction(std::uint64_t bytes) override;
  void finish_eviction(std::uint64_t ticket) override;
  std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                     const std::function<void(const disk_page&)>& visit) const override;
  void refill() override { requests_.start(); }
  void on_completion(const disk_completion& done) override;
  void poll(disk_clock::time_point now, std::uint64_t unix_s,
            std::vector<disk_event>& events) override;
  disk_clock::time_point next_due() const override;
  /// Waits for requests that the device has begun, however long they take: their memory cannot be
  /// given back before.
  void close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) override;
  disk_store_stats stats() const override;

  /// Writes that are not done, at a time.
  static constexpr std::uint32_t writes_max = 1024;
  static constexpr std::uint32_t reads_max = 1024;

private:
  using entry = record_table::entry;
  struct write_op {
    disk_write request;
    entry record; ///< `place` is the extent's first block.
    std::byte* header = nullptr;
    std::uint32_t transfers = 0; ///< Transfers on their way.
    int error = 0;
    bool erased = false; ///< Meanwhile: it is not to become a page.
  };
  using slots = std::vector<std::uint32_t>;

  static std::uint64_t blocks_of(const disk_page& page) noexcept {
    return 1 + in_blocks(page.length_bytes) / disk_block_bytes;
  }
  static std::uint64_t page_offset(const entry& record) noexcept {
    return (record.place + 1) * disk_block_bytes;
  }

  // -- writes
  std::optional<std::uint64_t> find_room(const disk_page& page);
  void add_transfers(std::uint32_t slot);
  void on_transfer(std::uint32_t slot, int error_number);
  bool sync_due() const noexcept;
  void start_sync();
  void on_sync(int error_number);
  void drop_write(std::uint32_t slot, disk_status status);
  write_op end_write(std::uint32_t slot, disk_status status);

  // -- the index
  bool commit_due() const noexcept;
  void start_commit();
  void add_removals(offset_index_batch& batch);
  void add_records(offset_index_batch& batch);
  void finish_commit();
  void publish(std::uint32_t slot);
  void undo(std::uint32_t slot, disk_status status);

  // -- reads and room
  void on_read(std::uint32_t slot, int error_number);
  void forget(const entry& record);
  void leaves(const entry& record);
  void collect_released();
  void give_back(const entry& record);
  bool busy() const noexcept;
  void on_request(std::uint64_t tag, int error_number);
  void abandon();
  void tell(disk_event::kind what, disk_status status, std::uint64_t tag, const page_key& key);

  // -- recovery
  result<bool> open_file();
  result<void> create_file(std::uint64_t bytes);
  result<void> fit_file(std::uint64_t bytes);
  result<void> sync_file();
  result<offset_scan_result> look(const recovery_options& options, bool& rebuilt);
  result<void> remember(const offset_scan_result& scanned, bool rebuilt);
  void adopt(const offset_scan_result& scanned, const recovery_options& options,
             const std::function<void(const disk_page&)>& found);

  // Constant after construction.
  disk_io& io_;
  const disk_store_options options_;
  const std::unique_ptr<offset_index> places_;
  const std::uint64_t reserved_bytes_; ///< Room that is left to the index.
  // The owner's.
  disk_file file_;
  record_table table_;
  request_line requests_;
  page_reads reads_;
  slot_list<write_op> writes_;
  header_blocks headers_;
  std::uint32_t transferring_ = 0; ///< Writes with transfers on their way.

  block_extents free_; ///< Extents that may be written to.
  block_extents soon_; ///< `free_`, and extents that will be free without another eviction.
  std::uint64_t refused_blocks_ = 0; ///< The size of an extent that there was no hole for.
  std::uint64_t holes_blocks_ = 0;   ///< Blocks in holes too small for `refused_blocks_`.

  // A write goes from one to the next.
  slots fresh_; ///< Writes whose headers are made at the next poll.
  slots written_;
  std::uint64_t written_bytes_ = 0;
  disk_clock::time_point written_since_{};
  slots syncing_;
  bool sync_on_its_way_ = false;
  slots synced_;
  slots committing_;

  std::vector<entry> to_remove_; ///< Records to remove from the index; then their extents are free.
  std::vector<entry> removing_;
  bool commit_on_its_way_ = false;
  disk_clock::time_point commit_not_before_{}; ///< When to commit again after a failure.

  std::vector<disk_event> events_;
  disk_clock::time_point now_{};
  std::uint64_t unix_s_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t syncs_ = 0;
  std::uint64_t corrupt_ = 0;
  bool crowded_ = false; ///< A write was sent away since the last sync began.
  bool closed_ = false;
};

} // namespace peercache::storage
