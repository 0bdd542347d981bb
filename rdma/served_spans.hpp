#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/result.hpp"
#include "common/slot_entry.hpp"
#include "rdma/memory_rows.hpp"

#include <cstddef>
#include <shared_mutex>
#include <span>
#include <vector>

namespace peercache::rdma {

/// The memory that a process lets others read by address: spans of memory, and leases that say
/// until when it may be read. A lease is an entry of a table. While the entry's generation is even,
/// the bytes that were read under the lease are what its owner meant. The owner takes the memory
/// back by storing an odd generation, with a fence behind the store; from then on the bytes may
/// change while somebody is still reading them. So a reader judges what it has read by a look at
/// the lease after the last byte.
///
/// Threads: `add` and `remove` any; all else the threads of servers. The mutex is shared by the
/// servers while they copy bytes, a few megabytes at a time, so that `remove` returns when nobody
/// still reads the memory. Ownership: table and spans are lent, the table for the lifetime of this
/// object, a span from `add` to `remove`. Errors: `refused` for memory that overlaps a span, or for
/// too many spans.
class served_spans {
public:
  static constexpr std::size_t spans_max = 65'536;

  explicit served_spans(std::span<const slot_entry> leases) : leases_(leases) {}

  std::span<const slot_entry> leases() const noexcept { return leases_; }

  result<void> add(std::span<const std::byte> memory);
  /// Takes the span that begins at `begin` out of service, and waits until no server reads it.
  /// False when no span begins there.
  bool remove(const std::byte* begin);

  /// Whether bytes that were read under the lease before this call are what the lease's owner
  /// meant: `hit`, `stale`, or `wrong_key`.
  page_status judge(slot_id lease, generation gen, const page_key& key) const noexcept;

  /// A hold on all spans: while an object made by `read` lives, no span is removed.
  class reading {
  public:
    reading() = default;
    /// Whether all bytes from the first row to the last one lie in one span.
    /// @pre made by `served_spans::read`; well_formed(rows)
    bool covers(const memory_rows& rows) const noexcept;

  private:
    friend class served_spans;
    explicit reading(const served_spans& of) : of_(&of), hold_(of.mutex_) {}

    const served_spans* of_ = nullptr;
    std::shared_lock<std::shared_mutex> hold_;
  };
  reading read() const { return reading(*this); }

private:
  const std::span<const slot_entry> leases_;
  mutable std::shared_mutex mutex_;
  /// The spans, ordered by address; guarded by `mutex_`.
  std::vector<std::span<const std::byte>> spans_;
};

} // namespace peercache::rdma
