#pragma once

#include "storage/disk/file_per_key/file_names.hpp"
#include "storage/disk/record_store.hpp"

#include <array>
#include <bitset>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace peercache::storage {

/// Keeps each page in a file of its own, named by the page's key (file_names.hpp): one block with
/// the record's header, then the page.
///
/// A record is written under a temporary name, made durable, renamed, and is a page when its folder
/// is durable too. Writes that end together share a round: first the syncs of all their files are
/// on the device at the same time, then the syncs of the folders that the files are named in; file
/// systems make one commit of syncs that are on the device together. The files of the next round
/// are synced beside the folders of this one.
///
/// Threads, ownership, errors: as disk_store.
/// Invariants: (1) under a page's name lies a whole, durable record or nothing; (2) a name is
/// removed only when the record behind it is out of the index and nobody reads it.
class file_store final : public record_store {
public:
  file_store(disk_io& io, const disk_store_options& options);
  /// Closes the store and waits for the requests that the device has begun.
  ~file_store() override;

  std::string_view name() const noexcept override { return "file_per_key"; }
  result<recovery_report> recover(const recovery_options& options,
                                  const std::function<void(const disk_page&)>& found) override;
  bool write(const disk_write& page) override;
  bool read(const disk_read& page) override;
  disk_eviction begin_eviction(std::uint64_t bytes) override;
  void poll(disk_clock::time_point now, std::uint64_t unix_s,
            std::vector<disk_event>& events) override;
  disk_clock::time_point next_due() const override;
  disk_store_stats stats() const override;

  /// The most writes at a time that have an open file. A write whose file got its name is closed
  /// while it waits for its folder and does not count. Together with the folders, which stay open,
  /// these files are fewer than the 1024 that a process may have open by default.
  static constexpr std::uint32_t writes_max = 384;
  static constexpr std::uint32_t reads_max = 128;
  /// The most writes taken between two polls: making a file takes so long that the device would run
  /// dry if it got nothing to do before many files were made.
  static constexpr std::uint32_t writes_at_once = 16;

private:
  /// The file of a record that is out of the index, or of a write that was given up; it has to be
  /// removed.
  struct doomed_file {
    entry record;
    bool temporary = false; ///< The file has the temporary name of its record, not the page's name.
    disk_clock::time_point not_before{};
  };

  static std::uint64_t file_bytes(std::uint64_t page_bytes) noexcept {
    return disk_block_bytes + in_blocks(page_bytes);
  }

  // Functions for writes.
  void start_write(const disk_write& page);
  bool syncing() const noexcept override { return !syncing_.empty(); }
  void on_sync(std::uint32_t slot, int error_number) override;
  bool names_due() const noexcept;
  bool pages_due() const noexcept;
  void begin_round();
  void name_round();
  bool rename_record(std::uint32_t slot);
  void sync_folders();
  void on_folder_sync(std::uint32_t folder, int error_number) override;
  void finish_round();
  void publish(std::uint32_t slot);
  void withdraw(std::uint32_t slot, disk_status status);
  void drop_write(std::uint32_t slot, disk_status status) override;
  /// Ends a write as `end_write` does, and closes its file if it is still open.
  write_op finish_write(std::uint32_t slot, disk_status status);

  // Functions for reads and removals.
  disk_status judge(const read_op& read, int error_number) override;
  void leaves(const entry& record) override;
  void give_back(const entry& gone);
  void collect_released();
  void remove_files();
  bool remove_or_keep(doomed_file file);
  bool busy() const noexcept override;
  void abandon() override;

  // Functions for folders and recovery.
  result<void> make_root();
  result<void> prepare_folder(std::uint32_t number);
  bool sync_parents();

  // The writes of a round move from `syncing_` to `named_`.
  slots syncing_;
  std::size_t syncs_left_ = 0;   ///< How many files of `syncing_` have a sync that is not done.
  slots named_;                  ///< Writes whose file is renamed and whose folder is being synced.
  std::size_t folders_left_ = 0; ///< How many folders have a sync that is not done.
  std::bitset<page_folders> folders_failed_;
  /// Keys of `named_` whose name belonged to a record that the index still has: nobody reads these
  /// keys until the round ends.
  std::unordered_set<page_key> replacing_;

  /// The open page folders by number; an empty handle: the folder is not open yet.
  std::array<disk_file, page_folders> folders_;
  /// Whether the root folder may have folders in it that are not durable.
  bool root_to_sync_ = false;
  /// The outer folders that may have folders in them that are not durable.
  std::bitset<first_page_folders> parents_to_sync_;

  /// Keys whose file on disk is that of a record that is out of the index, with the record's
  /// sequence.
  std::unordered_map<page_key, std::uint64_t> stale_names_;
  std::deque<doomed_file> to_remove_;
  /// Files that could not be removed; the next to be tried is in front.
  std::deque<doomed_file> stuck_;

  std::uint64_t used_bytes_ = 0;
  /// The part of `used_bytes_` that files of records out of the index take.
  std::uint64_t leaving_bytes_ = 0;
  bool more_ = false; ///< Since the last poll a write was turned away because of `writes_at_once`.
  /// Between the last two polls a write was turned away because of `writes_at_once`: the next poll
  /// is due at once, so that the write can be handed in again.
  bool again_ = false;
};

} // namespace peercache::storage
