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

/// A file for each page, named by the key's digest (file_names.hpp): one block with the record's
/// header, then the page.
///
/// A record is written under a temporary name, made durable, renamed, and is a page when its folder
/// is durable too. Writes that end together share a round: first the syncs of all their files are
/// on the device at the same time, then those of the folders that they are named in; file systems
/// make one commit of such. The files of the next round are synced beside the folders of this one.
///
/// Threads, ownership, errors: as disk_store.
/// Invariants: (1) under a page's name lies a whole, durable record or nothing; (2) a name is
/// removed only when the record behind it is out of the index and nobody reads it.
class file_store final : public record_store {
public:
  file_store(disk_io& io, const disk_store_options& options);
  /// Waits for what is on its way.
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

  /// Writes at a time, each with an open file; writes whose files have their names are closed and
  /// wait for their folders besides. Together with the folders, which stay open, these are fewer
  /// than the 1024 files that a process may have open by default.
  static constexpr std::uint32_t writes_max = 384;
  static constexpr std::uint32_t reads_max = 128;
  /// Taken between two polls: making a file takes long enough for the device to run dry.
  static constexpr std::uint32_t writes_at_once = 16;

private:
  /// The file of a record that is out of the index, or of a write that was given up.
  struct doomed_file {
    entry record;
    bool temporary = false; ///< The file never got the page's name.
    disk_clock::time_point not_before{};
  };

  static std::uint64_t file_bytes(std::uint64_t page_bytes) noexcept {
    return disk_block_bytes + in_blocks(page_bytes);
  }

  // -- writes
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
  /// Closes the file too, which it has until it has its name and waits for the folder.
  write_op finish_write(std::uint32_t slot, disk_status status);

  // -- reads and what goes
  disk_status judge(const read_op& read, int error_number) override;
  void leaves(const entry& record) override;
  void give_back(const entry& gone);
  void collect_released();
  void remove_files();
  bool remove_or_keep(doomed_file file);
  bool busy() const noexcept override;
  void abandon() override;

  // -- folders and recovery
  result<void> make_root();
  result<void> prepare_folder(std::uint32_t number);
  bool sync_parents();

  // What was written goes from one to the next.
  slots syncing_;
  std::size_t syncs_left_ = 0;   ///< Files of `syncing_` whose sync is not done.
  slots named_;                  ///< Writes with their file renamed and its folder being synced.
  std::size_t folders_left_ = 0; ///< Folders whose sync is not done.
  std::bitset<page_folders> folders_failed_;
  /// Keys of `named_` whose file another record of the index had: nobody reads them meanwhile.
  std::unordered_set<page_key> replacing_;

  std::array<disk_file, page_folders> folders_; ///< Open folders; empty: not there yet.
  bool root_to_sync_ = false;                   ///< The root has folders that may not be durable.
  std::bitset<first_page_folders> parents_to_sync_; ///< First-level folders that have such folders.

  /// Names that hold a record which is out of the index, and its sequence.
  std::unordered_map<page_key, std::uint64_t> stale_names_;
  std::deque<doomed_file> to_remove_;
  /// Files that could not be removed; the next to be tried in front.
  std::deque<doomed_file> stuck_;

  std::uint64_t used_bytes_ = 0;
  /// Part of `used_bytes_`: files of records that are out of the index.
  std::uint64_t leaving_bytes_ = 0;
  bool more_ = false;  ///< A write was sent away because others begin before it,
  bool again_ = false; ///< before the last poll: it may come now.
};

} // namespace peercache::storage
