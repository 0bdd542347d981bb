#pragma once

#include "tests/fakes/memory_disk_file.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::storage {

/// The files and folders of `memory_disk_io` by name: the names that programs see, the names that
/// are durable, and the changes between the two. Errors are errnos. Threads: one at a time.
class memory_disk_names {
public:
  using file_ptr = std::shared_ptr<memory_disk_file>;

  /// Returns the file of this name; null when there is none.
  file_ptr find(const std::string& name) const;
  bool is_folder(const std::string& name) const;

  int add_file(const std::string& name, file_ptr file);
  int add_folder(const std::string& name);
  int rename(const std::string& from, const std::string& to);
  int remove(const std::string& name);
  /// Makes changes of a folder's entries durable: those with numbers below `before`; by default
  /// all. Returns 0 or an errno.
  int sync_folder(const std::string& folder, std::uint64_t before = UINT64_MAX);
  /// Returns the number that the next change will have.
  std::uint64_t next_change() const noexcept { return next_change_; }

  /// Returns the bytes of all files that have a name, each rounded up to whole blocks.
  std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  /// Updates `used_bytes` for a file's new length; `before_bytes` is the file's length at the last
  /// call.
  void count(const memory_disk_file& file, std::uint64_t before_bytes);

  /// Returns the full names of all files, sorted.
  std::vector<std::string> files() const;
  std::optional<std::vector<disk_folder_entry>> list(const std::string& folder) const;
  void swap(const std::string& a, const std::string& b);

  /// Returns the names as a loss of power leaves them: each change that is not durable is kept or
  /// lost; a rename within one folder is kept as a whole or not at all.
  memory_disk_names after_power_cut(std::mt19937_64& random, survivors what) const;

private:
  struct node {
    file_ptr file; ///< The file that has the name; null when a folder has it.
  };
  using tree = std::map<std::string, node>;
  struct entry_change {
    std::string name;
    std::optional<node> now;
  };
  /// A change of entries that a loss of power keeps as a whole or not at all.
  struct change {
    std::vector<entry_change> entries;
    std::uint64_t number = 0; ///< Number of the change; later changes have larger numbers.
  };

  static void apply(tree& to, const std::vector<entry_change>& entries);
  void happen(std::vector<entry_change> entries);
  void unname(memory_disk_file& file);
  /// Returns the errno with which making a file or folder of this name fails; 0: it can be made.
  int why_no_place(const std::string& name) const;

  tree seen_;
  tree durable_;
  std::vector<change> changes_;
  std::uint64_t next_change_ = 1;
  std::uint64_t used_bytes_ = 0;
};

} // namespace peercache::storage
