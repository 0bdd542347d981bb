#pragma once

#include "common/forks.hpp"
#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/slot_entry.hpp"
#include "storage/epoch_table.hpp"
#include "storage/host_index.hpp"
#include "storage/slot_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace peercache::storage {

struct pool_memory_options {
  /// Objects of this prefix without a living owner are leftovers.
  std::string name_prefix = "peercache";
  std::string node_name;
  incarnation owner;            ///< Of the node; clients attach by it.
  std::uint64_t size_bytes = 0; ///< Of the pages; rounded down to 4 KiB (2 MiB with huge pages).
  /// A mounted hugetlbfs folder, such as /dev/hugepages; empty: normal pages in /dev/shm.
  std::string huge_page_directory;
  /// Threads that touch the pages before `create` returns; 0 leaves the pages to their first
  /// writer, who then dies of SIGBUS if the host has run out of memory.
  std::uint32_t pretouch_threads = 1;
  /// Bytes touched so far and in all; called from one thread at a time, with growing first
  /// argument.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> on_progress;
};

/// One pool's shared memory, mapped: header, host index, slot table, pages (`pool_header.hpp` has
/// the layout).
///
/// The node `create`s it; engines on the same host `attach` by name and incarnation. File mode
/// 0600: who runs as the same user may read and write it, and is trusted to.
///
/// Threads: after construction all methods may be called from any thread. `create` touches the
/// pages with `pretouch_threads` threads, itself one of them, and has joined the others when it
/// returns; nothing else here starts a thread.
/// Ownership: the creator holds a lock on the object for its life and unlinks its name when
/// destroyed. An attached process keeps its mapping when the owner is gone, with all bytes until
/// another owner of the prefix starts. Who destroys a mapping takes the time that unmapping takes
/// (35 ms a GiB that was touched), in pieces between which other threads may map.
/// A forked child inherits neither mapping nor file: there only the destructor may be called.
/// Errors: what the kernel or another program did is a `result`; its message says what to do.
class pool_memory {
public:
  static result<pool_memory> create(const pool_memory_options& options);

  /// Maps the pool called `name`. `incompatible` when it is no pool of this layout, `not_found`
  /// when it is gone or belongs to another incarnation than the expected one.
  static result<pool_memory> attach(const std::string& name, const incarnation& expected);

  /// Removes all pools of the prefix and of this user whose owner is gone, in /dev/shm and in the
  /// huge-page folder, and frees their memory at once: also of those that some process still maps,
  /// where every slot then reads as empty. `create` does so first. Whatever else has such a name
  /// stays as it is. Returns the number removed.
  static std::size_t remove_leftovers(const pool_memory_options& options);

  pool_memory(pool_memory&& other) noexcept;
  pool_memory& operator=(pool_memory&& other) noexcept;
  ~pool_memory();

  /// "/peercache-<node>-<incarnation>", or a path in the huge-page folder: what `attach` takes.
  const std::string& name() const noexcept { return name_; }
  const incarnation& owner() const noexcept { return owner_; }
  std::uint32_t granules() const noexcept { return granules_; }
  std::uint64_t page_bytes() const noexcept;

  slot_table slots() const noexcept;
  host_index index() const noexcept;
  /// Which spaces were cleared how often. The owner alone raises it.
  epoch_table epochs() const noexcept;
  /// Slot table and pages, for a data plane that registers them; the table comes first.
  std::span<std::byte> readable_region() const noexcept;

  // --- sessions
  // -------------------------------------------------------------------------------------- A client
  // locks its session's byte before it tells the node of the session. The kernel drops the lock
  // when the process is gone (its forked children share neither lock nor memory), and not while it
  // is merely stopped or slow.

  /// Client: locks for the life of this object. `refused` when somebody holds the index already.
  result<void> lock_session(std::uint32_t index);
  /// Owner: nobody holds the session's lock any more, hence nobody can write to its slots.
  /// @pre index < sessions_max
  bool session_is_dead(std::uint32_t index) const;

private:
  pool_memory() = default;
  result<void> map(std::uint64_t object_bytes);
  result<void> pretouch(const pool_memory_options& options) const;
  void release() noexcept;

  std::string name_;
  incarnation owner_;
  std::byte* base_ = nullptr;
  std::uint64_t object_bytes_ = 0;
  std::uint64_t index_offset_ = 0;
  std::uint64_t table_offset_ = 0;
  std::uint64_t pages_offset_ = 0;
  std::uint32_t granules_ = 0;
  std::uint32_t index_buckets_ = 0;
  int file_ = -1;
  bool is_owner_ = false;
  home_process home_;
};

} // namespace peercache::storage
