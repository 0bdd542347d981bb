#pragma once

#include "storage/disk/disk_store.hpp"
#include "storage/disk/header_blocks.hpp"
#include "storage/disk/io/request_line.hpp"
#include "storage/disk/page_reads.hpp"
#include "storage/disk/record_table.hpp"
#include "storage/disk/slot_list.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::storage {

/// The base of the stores that keep each page by itself: a record is one block with its header,
/// then the page. The base keeps the index, moves the bytes of writes and reads, says when a sync
/// is due, and collects the events. A derived class decides where records lie, makes written
/// records durable and known, and gives room back.
///
///   write: fresh --poll--> transfers --all done--> written --take_written--> the derived class,
///          which ends the write with `end_write` when the page is durable or is given up
///
/// Threads, ownership, errors: as disk_store. A derived class's destructor calls `close`.
/// Invariant: each write and each read that was taken has one event.
class record_store : public disk_store {
public:
  const disk_page* find(const page_key& key) const override;
  bool erase(const page_key& key) override;
  void finish_eviction(std::uint64_t ticket) override { table_.finish_eviction(ticket); }
  std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                     const std::function<void(const disk_page&)>& visit) const override;
  void refill() override { requests_.start(); }
  void on_completion(const disk_completion& done) override;
  /// Closes the store as disk_store::close says. Waits for requests that the device has begun, even
  /// longer than `at_most`: their memory cannot be given back before.
  void close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) override;

protected:
  using entry = record_table::entry;
  using slots = std::vector<std::uint32_t>;

  struct write_op {
    disk_write request;
    /// The record that the write makes; its `place` counts the blocks before the record in its
    /// file.
    entry record;
    disk_file file;
    std::byte* header = nullptr;
    std::uint32_t transfers = 0; ///< Transfers of the write that have not completed.
    int error = 0;
    /// The page was erased after the write was taken: it is not to become a page.
    bool erased = false;
  };

  /// @param sync_pages A sync that covers this many pages starts without waiting for more.
  record_store(disk_io& io, const disk_store_options& options, std::size_t sync_pages);
  ~record_store() override = default;

  static std::uint64_t record_offset(const entry& record) noexcept {
    return record.place * disk_block_bytes;
  }
  static std::uint64_t page_offset(const entry& record) noexcept {
    return record_offset(record) + disk_block_bytes;
  }

  // Decisions of a derived class.
  /// Called when a record is out of the index; reads of the record may still be on their way.
  virtual void leaves(const entry& record) = 0;
  /// Gives up a write that is not in the index. Has to call `end_write`.
  virtual void drop_write(std::uint32_t slot, disk_status status) = 0;
  /// Whether a sync of earlier writes is on its way: the next sync has to wait for it.
  virtual bool syncing() const noexcept = 0;
  virtual void on_sync(std::uint32_t slot, int error_number) = 0;
  virtual void on_folder_sync(std::uint32_t, int) {}
  /// The status of a read that has completed. Closes a file that was opened only for this read.
  virtual disk_status judge(const read_op& read, int error_number);
  /// Whether `close` has something to wait for.
  virtual bool busy() const noexcept = 0;
  /// Ends all writes that are not durable. Called when no request is on the device.
  virtual void abandon() = 0;

  // Functions for writes.
  /// Whether the page cannot be written: it is too long or empty, or the store is closed. If so,
  /// adds the event `refused`.
  bool refuses(const disk_write& page);
  void start_transfers();
  bool sync_due() const noexcept;
  /// Takes the writes whose transfers are done: the sync that begins now makes them durable.
  slots take_written();
  /// Sorts writes from the oldest to the newest, so that the newest record of a key comes last.
  void sort_by_age(slots& writes);
  write_op end_write(std::uint32_t slot, disk_status status);
  /// Takes all writes that have not ended; afterwards `fresh_` and `written_` are empty.
  slots take_unfinished();

  // Functions for reads.
  /// The record to be read; null when there is none, and then the event of the read is added.
  const entry* readable(const disk_read& page);
  void start_read(const disk_read& page, const entry& record, disk_file file);
  /// Takes a record out of the index, unless the key has a newer one there.
  void forget(const entry& record);

  void tell(disk_event::kind what, disk_status status, std::uint64_t tag, const page_key& key);
  void hand_out(std::vector<disk_event>& events);
  /// The statistics that the base knows; a derived class adds those of room and files.
  disk_store_stats counted() const;

  // Members that are constant after construction.
  disk_io& io_;
  const disk_store_options options_;
  const std::size_t sync_pages_;
  // Members that the owner's thread uses.
  record_table table_;
  request_line requests_;
  page_reads reads_;
  slot_list<write_op> writes_;
  /// Writes that were taken since the last poll. The next poll makes their headers and starts them.
  slots fresh_;
  slots written_;
  disk_clock::time_point written_since_{};
  std::vector<disk_event> events_;
  disk_clock::time_point now_{};
  std::uint64_t unix_s_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t syncs_ = 0;
  /// A write was turned away since the last sync began, so the next sync does not wait for more
  /// pages.
  bool crowded_ = false;
  bool closed_ = false;

private:
  void add_transfers(std::uint32_t slot);
  void on_request(std::uint64_t tag, int error_number);
  void on_transfer(std::uint32_t slot, int error_number);
  void on_read(std::uint32_t slot, int error_number);

  header_blocks headers_;
  std::uint32_t transferring_ = 0; ///< How many writes have transfers that are not done.
  std::uint64_t written_bytes_ = 0;
  std::uint64_t corrupt_ = 0;
};

} // namespace peercache::storage
