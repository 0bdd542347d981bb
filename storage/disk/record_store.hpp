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

/// What the stores in which each page lies by itself share: a record is one block with its header,
/// then the page. The base keeps the index, moves the bytes of writes and reads, says when a sync
/// is due, and collects the events. A derived class decides where records lie, makes what was
/// written durable and known, and gives room back.
///
///   write: fresh --poll--> transfers --all done--> written --take_written--> the derived class,
///          which ends it with `end_write` when it is durable, or not to be
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
  /// What the device has begun is waited for, however long it takes: its memory cannot be given
  /// back before.
  void close(std::chrono::nanoseconds at_most, std::vector<disk_event>& events) override;

protected:
  using entry = record_table::entry;
  using slots = std::vector<std::uint32_t>;

  struct write_op {
    disk_write request;
    entry record; ///< `place` counts the blocks before the record in its file.
    disk_file file;
    std::byte* header = nullptr;
    std::uint32_t transfers = 0; ///< Transfers on their way.
    int error = 0;
    bool erased = false; ///< Meanwhile: it is not to become a page.
  };

  /// @param sync_pages a sync does not wait for more pages than these
  record_store(disk_io& io, const disk_store_options& options, std::size_t sync_pages);
  ~record_store() override = default;

  static std::uint64_t record_offset(const entry& record) noexcept {
    return record.place * disk_block_bytes;
  }
  static std::uint64_t page_offset(const entry& record) noexcept {
    return record_offset(record) + disk_block_bytes;
  }

  // -- what a derived class decides
  /// The record is out of the index; it may still be read.
  virtual void leaves(const entry& record) = 0;
  /// A write that is to be given up before anybody else knows of it; `end_write` is called.
  virtual void drop_write(std::uint32_t slot, disk_status status) = 0;
  /// Whether what was written before is being made durable: a sync has to wait.
  virtual bool syncing() const noexcept = 0;
  virtual void on_sync(std::uint32_t slot, int error_number) = 0;
  virtual void on_folder_sync(std::uint32_t, int) {}
  /// How a read ended; what was open for it alone is closed.
  virtual disk_status judge(const read_op& read, int error_number);
  /// Whether `close` has something to wait for.
  virtual bool busy() const noexcept = 0;
  /// Ends all writes that got no further; nothing is on the device.
  virtual void abandon() = 0;

  // -- writes
  /// Whether it is none to begin with; its event is told then.
  bool refuses(const disk_write& page);
  void start_transfers();
  bool sync_due() const noexcept;
  /// What a sync that begins now makes durable.
  slots take_written();
  /// Oldest first, so that the newest record of a key comes last.
  void sort_by_age(slots& writes);
  write_op end_write(std::uint32_t slot, disk_status status);
  /// All writes; none is fresh or written any more.
  slots take_unfinished();

  // -- reads
  /// Null: it cannot be read, and its event is told.
  const entry* readable(const disk_read& page);
  void start_read(const disk_read& page, const entry& record, disk_file file);
  /// Out of the index, unless a newer record has taken its place.
  void forget(const entry& record);

  void tell(disk_event::kind what, disk_status status, std::uint64_t tag, const page_key& key);
  void hand_out(std::vector<disk_event>& events);
  /// What is counted here; room and files are missing.
  disk_store_stats counted() const;

  // Constant after construction.
  disk_io& io_;
  const disk_store_options options_;
  const std::size_t sync_pages_;
  // The owner's.
  record_table table_;
  request_line requests_;
  page_reads reads_;
  slot_list<write_op> writes_;
  slots fresh_; ///< Writes whose headers are made at the next poll.
  slots written_;
  disk_clock::time_point written_since_{};
  std::vector<disk_event> events_;
  disk_clock::time_point now_{};
  std::uint64_t unix_s_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t syncs_ = 0;
  bool crowded_ = false; ///< A write was turned away since the last sync began.
  bool closed_ = false;

private:
  void add_transfers(std::uint32_t slot);
  void on_request(std::uint64_t tag, int error_number);
  void on_transfer(std::uint32_t slot, int error_number);
  void on_read(std::uint32_t slot, int error_number);

  header_blocks headers_;
  std::uint32_t transferring_ = 0; ///< Writes with transfers on their way.
  std::uint64_t written_bytes_ = 0;
  std::uint64_t corrupt_ = 0;
};

} // namespace peercache::storage
