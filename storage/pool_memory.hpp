#pragma once

#include "common/forks.hpp"
#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/slot_entry.hpp"
#include "storage/epoch_table.hpp"
#include "storage/host_index.hpp"
#include "storage/pool_layout.hpp"
#include "storage/pool_note.hpp"
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
  std::string cluster_name;
  std::string node_name;
  incarnation owner;            ///< The node's incarnation; clients attach by it.
  std::uint64_t size_bytes = 0; ///< All pages together, rounded down to 4 KiB (2 MiB huge pages).
  /// A mounted hugetlbfs folder, such as /dev/hugepages; empty: normal pages in /dev/shm.
  std::string huge_page_directory;
  /// Threads that touch the pages before `create` returns; 0 leaves the pages to their first
  /// writer, who then dies of SIGBUS if the host has run out of memory.
  std::uint32_t prefault_threads = 1;
  /// Bytes touched so far and in all; called from one thread at a time, with growing first
  /// argument.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> on_progress;

  /// The beginning of the name of each pool of this node.
  std::string object_name_start() const;
  std::string object_name() const;
  /// Digest of the names of cluster and node.
  std::uint64_t maker() const;
};

/// One pool's shared memory, mapped: header, host index, slot table, pages (`pool_header.hpp` has
/// the layout).
///
/// The node `create`s it; engines on the same host `attach` by name and incarnation. File mode
/// 0600: who runs as the same user may read and write it, and is trusted to.
///
/// Threads: after construction all methods may be called from any thread. `create` touches the
/// pages with `prefault_threads` threads, itself one of them, and has joined the others when it
/// returns; nothing else here starts a thread.
/// Ownership: the creator, or who took it over, holds a lock on the object for its life and unlinks
/// its name when destroyed, unless the pool is to `outlive` it. An attached process keeps its
/// mapping when the owner is gone, with all bytes until another owner of the prefix starts; one
/// that takes the pool over leaves readers their pages until it needs the room. Who destroys a
/// mapping takes the time that unmapping takes (35 ms a GiB that was touched), in pieces between
/// which other threads may map. A forked child inherits neither mapping nor file: there only the
/// destructor may be called. Errors: what the kernel or another program did is a `result`; its
/// message says what to do.
class pool_memory {
public:
  static result<pool_memory> create(const pool_memory_options& options);

  /// Takes over, with all that is in it, the pool that a dead process of the same node left: it has
  /// a new owner and name then, and the index of the host is empty; `survey`
  /// (storage/pool_remains.hpp) says what is in it. A process that is killed in here leaves a pool
  /// that the next one can take over. Other leftovers are removed. Clients of the dead process may
  /// still map the pool, hence write to slots that it had them fill, until
  /// `former_clients_are_dead`. Errors: `not_found` when nothing was left; `incompatible`, and why,
  /// when what was left has another layout version, size or cluster, or huge pages: it stays for
  /// `create` to remove. Huge pages are refused because a device of the dead process may still
  /// write to them.
  static result<pool_memory> take_over(const pool_memory_options& options);

  /// Maps the pool called `name`. `incompatible` when it is no pool of this layout, `not_found`
  /// when it is gone or belongs to another incarnation than the expected one, `refused` when it is
  /// another user's, or others than its user may use it: only the node's word says whose it is.
  static result<pool_memory> attach(const std::string& name, const incarnation& expected);

  /// Removes all pools of exactly this prefix and of this user whose owner is gone, in /dev/shm and
  /// in the huge-page folder, and frees their memory at once: also of those that some process still
  /// maps, where every slot then reads as empty. `create` does so first. Whatever else has such a
  /// name stays as it is. Returns the number removed.
  static std::size_t remove_leftovers(const pool_memory_options& options);

  pool_memory(pool_memory&& other) noexcept;
  pool_memory& operator=(pool_memory&& other) noexcept;
  ~pool_memory();

  /// "/peercache-<node>-<incarnation>", or a path in the huge-page folder: what `attach` takes.
  const std::string& name() const noexcept { return name_; }
  const incarnation& owner() const noexcept { return owner_; }
  std::uint32_t granules() const noexcept { return layout_.granules; }
  std::uint64_t page_bytes() const noexcept;

  slot_table slots() const noexcept;
  host_index index() const noexcept;
  /// The epochs of cleared spaces. The owner alone raises one.
  epoch_table epochs() const noexcept;
  /// For the owner after this one.
  pool_note note() const noexcept;
  /// Slot table and pages, for a data plane that registers them; the table comes first.
  std::span<std::byte> readable_region() const noexcept;

  /// Owner: the object keeps its name when this ends, for somebody to take it over.
  void outlive(bool wanted) noexcept { outlives_ = wanted; }
  /// Gives these granules other memory, all zeros: a device that still writes to the old one on
  /// behalf of a dead process writes nowhere. For the owner. Not with huge pages, nor when a device
  /// of this process has registered the memory.
  result<void> make_anew(slot_id slot, std::uint32_t granules);

  // --- sessions
  // -------------------------------------------------------------------------------------- A client
  // locks its session's byte before it tells the node of the session. The kernel drops the lock
  // when the process is gone (its forked children share neither lock nor memory), and not while it
  // is merely stopped or slow.

  /// Client: locks for the life of this object. `refused` when somebody holds the index already.
  result<void> lock_session(std::uint32_t index);
  /// Owner: nobody holds the session's lock any more, hence nobody can write to its slots.
  /// @pre index < sessions_per_owner
  bool session_is_dead(std::uint32_t index) const;
  /// Owner: somebody who has the pool mapped holds the session's lock.
  /// @pre index < sessions_per_owner
  bool session_is_held(std::uint32_t index) const;
  /// Owner: no client of a process that had the pool before has it mapped.
  bool former_clients_are_dead() const;

private:
  pool_memory() = default;
  result<void> map(std::uint64_t object_bytes);
  result<void> prefault(const pool_memory_options& options) const;
  void release() noexcept;
  std::uint64_t lock_of(std::uint32_t session) const noexcept;
  result<void> change_owner(const pool_memory_options& options);

  std::string name_;
  incarnation owner_;
  std::byte* base_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  pool_layout layout_;
  std::uint32_t first_session_ = 0;
  int file_ = -1;
  bool is_owner_ = false;
  bool outlives_ = false;
  home_process home_;
};

} // namespace peercache::storage
