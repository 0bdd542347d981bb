#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/slot_entry.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

namespace peercache::handoff {

/// The right to read the pages of one room at one prefill worker, while the entry of `slot` has
/// this generation and key.
struct lease {
  slot_id slot;
  generation gen;
  page_key key;
  bool operator==(const lease&) const = default;
};

/// The key of a lease: 8 bytes room, 16 bytes process, 8 bytes counter. No two leases of any
/// processes have the same.
page_key lease_key(std::uint64_t room, const incarnation& process, std::uint64_t counter) noexcept;

/// Leases of a prefill worker, in memory that its peers READ: entries as in a pool's slot table.
/// What a receiver has read counts only if the entry, READ behind a fence after the last byte,
/// still says that the lease stands. So pages may be given to somebody else as soon as `revoke` has
/// returned: no receiver has to agree, and no clock to run out.
///
/// Threads: one owner; readers, in this process and in others, look at any time. Ownership: the
/// entries are the caller's and outlive the table; its end revokes all leases. Errors: a full table
/// gives no lease. Invariants: an entry's generation only grows, and is even exactly while it is
/// leased; its key changes only while the generation is odd. Bounds: as many leases as entries.
class lease_table {
public:
  /// Whatever the entries say, nothing is leased from here on.
  /// @pre no other table has these entries
  lease_table(std::span<slot_entry> entries, incarnation process);
  ~lease_table();
  lease_table(const lease_table&) = delete;
  lease_table& operator=(const lease_table&) = delete;

  /// Leases an entry to the room; nothing when all are leased.
  std::optional<lease> take(std::uint64_t room);

  /// Ends the lease. When this returns, each later look at the entry finds it ended; whoever has
  /// pinned the entry before (`pinned`) may still be sending. A lease that has ended already stays
  /// so, whoever has its entry now.
  void revoke(const lease& ended) noexcept;

  bool stands(const lease& asked) const noexcept;
  /// Whether a server of this process is sending for the entry's present or last lease.
  bool pinned(const lease& asked) const noexcept;
  std::size_t taken() const noexcept { return entries_.size() - free_.size(); }
  std::size_t capacity() const noexcept { return entries_.size(); }

private:
  std::span<slot_entry> entries_;
  incarnation process_;
  std::uint64_t counter_ = 0;
  /// Entries without a lease, the one that was given back first in front.
  std::deque<std::uint32_t> free_;
};

} // namespace peercache::handoff
