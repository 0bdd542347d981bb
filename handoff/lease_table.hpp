#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/slot_entry.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

namespace peercache::handoff {

/// The right to read memory of one worker (the pages of a room, or the memory of a transfer) while
/// the entry of `slot` has this generation and key.
struct lease {
  slot_id slot;
  generation gen;
  page_key key;
  bool operator==(const lease&) const = default;
};

/// The key of a lease: 8 bytes room (or transfer), 16 bytes process, 8 bytes counter. No two
/// leases, of whatever processes, have the same key.
page_key lease_key(std::uint64_t room, const incarnation& process, std::uint64_t counter) noexcept;

/// Leases of a prefill or transfer worker, in memory that its peers READ: entries as in a pool's
/// slot table. What a receiver has read counts only if the entry, READ behind a fence after the
/// last byte, still says that the lease stands. So pages may be given to somebody else as soon as
/// `revoke` has returned: no receiver has to agree, and no time-out has to pass.
///
/// Threads: one owner; readers, in this process and in others, look at any time. Ownership: the
/// entries are the caller's and outlive the table; its end revokes all leases. Errors: a full table
/// gives no lease. Invariants: an entry's generation only grows, and is even exactly while it is
/// leased; its key changes only while the generation is odd. Bounds: as many leases as entries.
class lease_table {
public:
  /// Closes all entries, whatever they say, so that the table begins without leases.
  /// @pre no other table uses these entries
  lease_table(std::span<slot_entry> entries, incarnation process);
  ~lease_table();
  lease_table(const lease_table&) = delete;
  lease_table& operator=(const lease_table&) = delete;

  /// Leases an entry to this room or transfer; nothing when all entries are leased.
  std::optional<lease> take(std::uint64_t room);

  /// Ends the lease. After `revoke` has returned, whoever looks at the entry finds the lease ended;
  /// servers may still be sending what it covers. Does nothing for a lease that has ended already,
  /// even if its entry is leased again.
  void revoke(const lease& ended) noexcept;

  bool stands(const lease& asked) const noexcept;
  std::size_t taken() const noexcept { return entries_.size() - free_.size(); }
  std::size_t capacity() const noexcept { return entries_.size(); }

private:
  std::span<slot_entry> entries_;
  incarnation process_;
  std::uint64_t counter_ = 0;
  /// Indices of entries without a lease, the longest free first.
  std::deque<std::uint32_t> free_;
};

} // namespace peercache::handoff
