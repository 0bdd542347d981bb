#pragma once

#include "common/forks.hpp"
#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/slot_entry.hpp"
#include "storage/epoch_table.hpp"
#include "storage/hold_table.hpp"
#include "storage/host_index.hpp"
#include "storage/pool_layout.hpp"
#include "storage/pool_note.hpp"
#include "storage/slot_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>

namespace peercache::storage {

struct pool_memory_options {
  /// The prefix of the names of a deployment's pools: an object with this prefix and without a
  /// living owner is a leftover.
  std::string name_prefix = "peercache";
  std::string cluster_name;
  std::string node_name;
  /// The incarnation of the node that owns the pool, which clients need to attach.
  incarnation owner;
  /// The bytes of all pages together, rounded down to 4 KiB, or to whole huge pages.
  std::uint64_t size_bytes = 0;
  /// A mounted hugetlbfs folder, such as /dev/hugepages; empty: normal pages in /dev/shm.
  std::string huge_page_directory;
  std::uint64_t huge_page_bytes = 0; ///< The size of that folder's pages; 0 without one.
  /// A group whose members may map the pool, besides the owner's user.
  std::optional<gid_t> group;
  /// How many threads touch the pages before `create` returns. 0 leaves each page to its first
  /// writer, who dies of SIGBUS if the host has run out of memory.
  std::uint32_t prefault_threads = 1;
  /// Called with the bytes touched so far and in all; by one thread at a time, with a growing first
  /// argument.
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> on_progress;

  /// The part of a pool's name that all pools of this node begin with.
  std::string object_name_start() const;
  std::string object_name() const;
  /// A digest of the cluster's and the node's names, by which a pool's header says whose it is.
  std::uint64_t maker() const;
};

/// A pool's shared memory, mapped: header, epoch block, note, host index, holds, entries of
/// clients, slot table, pages (`pool_header.hpp` has the layout).
///
/// The node makes it with `create`; engines on the same host `attach` to it by name and
/// incarnation. The file mode is 0600, or 0660 with a group: every process of the same user, or of
/// the group, may read and write the pool, and is trusted. Only its faults are caught: an attached
/// process has header, epochs, note and slot table mapped read-only, for good, so it dies of
/// SIGSEGV when it writes there, and keeps no descriptor with which it could change the object's
/// size.
///
/// Threads: after construction all methods may be called from any thread. `create` touches the
/// pages with `prefault_threads` threads, itself one of them, and has joined the others when it
/// returns; nothing else here starts a thread.
/// Ownership: the owner, which created the pool or took it over, holds a lock on the object for its
/// life and unlinks its name when destroyed, unless the pool is to `outlive` it. An attached
/// process keeps its mapping when the owner is gone, with all bytes until another owner of the
/// prefix starts; an owner that takes the pool over leaves readers their pages until it needs the
/// room. Destroying a mapping takes as long as unmapping it (35 ms per GiB that was touched), in
/// pieces between which other threads may map. A forked child inherits neither mapping nor file:
/// there only the destructor may be called. Errors: what the kernel or another program did is a
/// `result`; its message says what to do.
class pool_memory {
public:
  static result<pool_memory> create(const pool_memory_options& options);

  /// Takes over the pool that a dead process of the same node left, with all that is in it. The
  /// pool gets a new owner and name, and its host index is emptied; `survey`
  /// (storage/pool_remains.hpp) says what is in it. A process that is killed in this call leaves a
  /// pool that the next one can take over. Other leftovers are removed. Clients of the dead process
  /// may still map the pool, and so write to slots that they were filling, until
  /// `former_clients_are_dead`. Errors: `not_found` when nothing was left; `incompatible`, with the
  /// reason, when the pool that was left has another layout version, size or cluster, or huge
  /// pages: it stays, and `create` will remove it. Huge pages are refused because a device of the
  /// dead process may still write to them.
  static result<pool_memory> take_over(const pool_memory_options& options);

  /// Maps the pool called `name`. Errors: `incompatible` when the object is not a pool of this
  /// layout, `not_found` when it is gone or belongs to another incarnation than the expected one,
  /// `refused` unless the object is this user's own, shared with nobody or with one group, or any
  /// user's that is shared with exactly `group`: a name alone does not say whose pool it is.
  static result<pool_memory> attach(const std::string& name, const incarnation& expected,
                                    std::optional<gid_t> group = {});

  /// Removes all pools of exactly this prefix and of this user whose owner is gone, in /dev/shm and
  /// in the huge-page folder, and frees their memory at once. A process that still maps such a pool
  /// reads every slot as empty. `create` begins with this call. Other files with such a name stay
  /// as they are. Returns the number of pools removed.
  static std::size_t remove_leftovers(const pool_memory_options& options);

  pool_memory(pool_memory&& other) noexcept;
  pool_memory& operator=(pool_memory&& other) noexcept;
  ~pool_memory();

  /// The name that `attach` takes: "/<name_prefix>-<node>-<incarnation>", or a path in the
  /// huge-page folder.
  const std::string& name() const noexcept { return name_; }
  const incarnation& owner() const noexcept { return owner_; }
  std::uint32_t granules() const noexcept { return layout_.granules; }
  std::uint64_t page_bytes() const noexcept;

  slot_table slots() const noexcept;
  host_index index() const noexcept;
  /// The epochs of cleared spaces. Only the owner of the pool may raise one.
  epoch_table epochs() const noexcept;
  /// The table of the pages that are held against eviction.
  hold_table holds() const noexcept;
  /// The note that the owner leaves to the next owner.
  pool_note note() const noexcept;
  /// Slot table and pages, for a data plane that registers this memory; the table comes first.
  std::span<std::byte> readable_region() const noexcept;

  /// For the owner: whether the object keeps its name when this mapping is destroyed, so that a
  /// later process can take the pool over.
  void outlive(bool wanted) noexcept { outlives_ = wanted; }
  /// For the owner: whether a client that knows name and incarnation can map the pool. Errors: why
  /// not, in words, when another program has removed, shortened or overwritten the object. The
  /// check asks the kernel and reads the header: cheap enough for twice a second.
  result<void> check_object() const;
  /// For the owner: gives these granules other memory, all zeros, so that a device that still
  /// writes to the old memory on behalf of a dead process changes nothing here. Not with huge
  /// pages, nor when a device of this process has registered the memory.
  result<void> make_anew(slot_id slot, std::uint32_t granules);

  // Functions for sessions. A client locks its session's byte before it tells the node of the
  // session. The kernel drops the lock when the process is gone (its forked children share neither
  // lock nor memory), and not while the process is merely stopped or slow.

  /// For a client: locks a session for the life of this object and closes the object's file; the
  /// mapping keeps both. `refused` when somebody holds the session already, or this object another.
  result<void> lock_session(std::uint32_t index);
  /// For the owner: whether nobody holds the session's lock now, so that nobody can write to the
  /// session's slots.
  /// @pre index < sessions_per_owner
  bool session_is_dead(std::uint32_t index) const;
  /// For the owner: whether a process that has the pool mapped holds the session's lock.
  /// @pre index < sessions_per_owner
  bool session_is_held(std::uint32_t index) const;
  /// For the owner: whether no client of an earlier owner still has the pool mapped.
  bool former_clients_are_dead() const;

private:
  pool_memory() = default;
  enum class access : bool { read, write };
  result<void> map(std::uint64_t object_bytes, int file, access rights);
  result<void> map_what_clients_write();
  void advise() const noexcept;
  void close_file() noexcept;
  result<void> prefault(const pool_memory_options& options) const;
  void release() noexcept;
  std::uint64_t lock_of(std::uint32_t session) const noexcept;
  result<void> change_owner(const pool_memory_options& options);

  std::string name_;
  incarnation owner_;
  std::byte* base_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::uint64_t unmap_step_bytes_ = 0; ///< Bytes that are unmapped at a time.
  pool_layout layout_;
  std::uint32_t first_session_ = 0;
  int file_ = -1;              ///< -1 in an attached process that has locked its session.
  std::optional<gid_t> group_; ///< The group that shares the object; none in attached processes.
  bool is_owner_ = false;
  bool outlives_ = false;
  home_process home_;
};

} // namespace peercache::storage
