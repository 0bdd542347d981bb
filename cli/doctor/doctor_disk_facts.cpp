#include "bench/sample_statistics.hpp"
#include "cli/doctor/doctor_disk.hpp"
#include "storage/disk/folder_claim.hpp"
#include "storage/disk/io/disk_io.hpp"
#include "storage/disk/other_stores.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <linux/magic.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t syncs = 100;
constexpr double seconds_of_syncs_most = 1.5;

constexpr const char* trial_name = "peercache-doctor-";
constexpr std::size_t trial_unique = 6; ///< Letters that mkdtemp adds to the name.
/// Age from which a trial folder is a leftover: `peercache doctor` ends long before that.
constexpr std::time_t trial_seconds_most = 60;
/// How long the files of the node are counted.
constexpr std::chrono::milliseconds count_within{500};

/// Whether the folder is one that `peercache doctor` of this user made too long ago to be still at
/// work.
bool is_leftover(const fs::path& path) {
  const auto name = path.filename().string();
  struct ::stat found {};
  return name.starts_with(trial_name) && name.size() == std::strlen(trial_name) + trial_unique &&
         ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == ::geteuid() && (found.st_mode & 0777) == 0700 &&
         std::time(nullptr) - found.st_mtime > trial_seconds_most;
}

/// Removes the folders of earlier `peercache doctor` processes that were killed while they waited
/// for a disk.
void remove_leftovers(const fs::path& folder) {
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    if (is_leftover(it->path()))
      fs::remove_all(it->path(), ignored);
  }
}

/// A temporary folder inside `parent`, removed at the end. `path` is empty when none can be made;
/// errno then says why.
struct trial_folder {
  explicit trial_folder(const fs::path& parent)
      : path((parent / (std::string(trial_name) + "XXXXXX"))) {
    if (::mkdtemp(path.data()) == nullptr)
      path.clear();
  }
  ~trial_folder() {
    std::error_code ignored;
    if (!path.empty())
      fs::remove_all(path, ignored);
  }
  trial_folder(const trial_folder&) = delete;
  trial_folder& operator=(const trial_folder&) = delete;

  std::string path;
};

/// The nearest folder that exists, going up from `folder` and starting with it.
fs::path nearest_existing(fs::path folder) {
  std::error_code failed;
  while (!fs::exists(folder, failed) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

std::string name_of_file_system(const fs::path& path) {
  struct statfs about {};
  if (::statfs(path.c_str(), &about) != 0)
    return {};
  using entry = std::pair<std::uint32_t, const char*>;
  // linux/magic.h has no names for the last entries of this table.
  static constexpr std::array<entry, 15> table = {{{EXT4_SUPER_MAGIC, "ext4"},
                                                   {XFS_SUPER_MAGIC, "xfs"},
                                                   {BTRFS_SUPER_MAGIC, "btrfs"},
                                                   {F2FS_SUPER_MAGIC, "f2fs"},
                                                   {OVERLAYFS_SUPER_MAGIC, "overlay"},
                                                   {TMPFS_MAGIC, "tmpfs"},
                                                   {RAMFS_MAGIC, "ramfs"},
                                                   {NFS_SUPER_MAGIC, "nfs"},
                                                   {SMB2_SUPER_MAGIC, "smb2"},
                                                   {CIFS_SUPER_MAGIC, "cifs"},
                                                   {V9FS_MAGIC, "9p"},
                                                   {CEPH_SUPER_MAGIC, "ceph"},
                                                   {FUSE_SUPER_MAGIC, "fuse"},
                                                   {0x2fc12fc1, "zfs"},
                                                   {0xca451a4e, "bcachefs"}}};
  const auto found = std::find_if(table.begin(), table.end(), [&](const entry& one) {
    return one.first == static_cast<std::uint32_t>(about.f_type);
  });
  return found == table.end() ? std::string{} : found->second;
}

/// Counts the bytes that the files below a folder take on disk. Sets `more_is_used` when the time
/// is over before the count, as with a store of many files.
void count_bytes_below(const fs::path& folder, std::chrono::milliseconds within,
                       disk_facts& facts) {
  const auto until = std::chrono::steady_clock::now() + within;
  std::error_code failed;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(folder, skip, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (std::chrono::steady_clock::now() >= until) {
      facts.more_is_used = true;
      return;
    }
    struct stat file {};
    if (::lstat(it->path().c_str(), &file) == 0)
      // st_blocks counts in units of 512 bytes.
      facts.used_bytes += static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
}

struct free_block {
  void operator()(void* block) const noexcept { std::free(block); }
};

/// Writes one block after another and makes each durable, with O_DIRECT if the file system has it;
/// keeps the times in `facts`.
void try_syncs(const std::string& file, disk_facts& facts) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  const std::unique_ptr<void, free_block> block(
      std::aligned_alloc(storage::disk_block_bytes, storage::disk_block_bytes));
  std::memset(block.get(), 0x5a, storage::disk_block_bytes);
  const int fd = ::open(file.c_str(), flags | (facts.direct ? O_DIRECT : 0), 0600);
  const auto begin = bench::clock::now();
  for (std::size_t i = 0; fd >= 0 && i < syncs; ++i) {
    const auto before = bench::clock::now();
    const auto at = static_cast<off_t>(i * storage::disk_block_bytes);
    if (::pwrite(fd, block.get(), storage::disk_block_bytes, at) != storage::disk_block_bytes ||
        ::fdatasync(fd) != 0) {
      facts.why_no_sync = std::strerror(errno);
      break;
    }
    const auto after = bench::clock::now();
    facts.sync_us.push_back(bench::seconds_between(before, after) * 1e6);
    if (bench::seconds_between(begin, after) > seconds_of_syncs_most)
      break;
  }
  if (fd < 0)
    facts.why_no_sync = std::strerror(errno);
  else
    ::close(fd);
}

bool takes_direct(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0600);
  if (fd < 0)
    return false;
  const std::unique_ptr<void, free_block> block(
      std::aligned_alloc(storage::disk_block_bytes, storage::disk_block_bytes));
  std::memset(block.get(), 0, storage::disk_block_bytes);
  const auto written = ::pwrite(fd, block.get(), storage::disk_block_bytes, 0);
  ::close(fd);
  return written == storage::disk_block_bytes;
}

/// Tries out what the disk can do, in a folder that is removed at the end. @param parent the node's
/// folder, or the nearest one above it that exists
void try_out(const fs::path& parent, disk_facts& facts) {
  if (parent == fs::path(facts.folder)) // Nobody but nodes and doctors write there.
    remove_leftovers(parent);
  const trial_folder trial(parent);
  if (trial.path.empty()) {
    facts.why_not_writable = std::strerror(errno);
    return;
  }
  facts.direct = takes_direct(trial.path + "/direct");
  try_syncs(trial.path + "/sync", facts);
  // Opens the io_uring as a node does.
  auto opened = storage::open_disk(trial.path + "/disk", 8);
  if (!opened)
    facts.why_not_writable = opened.error().message;
  else
    facts.why_no_uring = opened->why_fallback;
}

/// Finds out whose the node's folder is, and which other stores have files in it.
void look_at_owner(const config::node_config& config, disk_facts& facts) {
  const storage::folder_owner us{config.cluster.name, config.node.name};
  const auto free = storage::folder_claim::look(facts.folder, us);
  if (!free) {
    facts.why_not_ours = free.error().message;
    facts.held_by_this_node =
        free.error().code == errc::refused && storage::folder_claim::is_owned_by(facts.folder, us);
  }
  facts.other_files = storage::files_of_other_stores(facts.folder, facts.store);
}

} // namespace

disk_facts gather_disk_facts(const config::node_config& config) {
  return gather_disk_facts(config, count_within);
}

disk_facts gather_disk_facts(const config::node_config& config,
                             std::chrono::milliseconds counted_within) {
  disk_facts facts;
  facts.enabled = config.disk.enabled;
  facts.path = config.disk.path;
  facts.size_bytes = config.disk.size_bytes;
  facts.store = config::to_string(config.disk.store);
  if (!facts.wanted())
    return facts;
  const auto folder = fs::path(facts.path) / config.node.name;
  facts.folder = folder.string();
  const auto parent = nearest_existing(folder);
  facts.file_system = name_of_file_system(parent);
  look_at_owner(config, facts);
  try_out(parent, facts);
  count_bytes_below(folder, counted_within, facts);
  std::error_code failed;
  const auto space = fs::space(parent, failed);
  facts.free_bytes = failed ? 0 : space.available;
  facts.whole_bytes = failed ? 0 : space.capacity;
  return facts;
}

} // namespace peercache::cli
