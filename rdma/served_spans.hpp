#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "common/result.hpp"
#include "common/slot_entry.hpp"
#include "rdma/memory_rows.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace peercache::rdma {

/// The memory that a process lets others read by address: spans of memory, and leases that say
/// until when it may be read. A lease is an entry of a table. While the entry's generation is even,
/// the bytes that were read under the lease are what its owner meant. The owner takes the memory
/// back by storing an odd generation, with a fence behind the store; from then on the bytes may
/// change while somebody is still reading them. So a reader judges what it has read by a look at
/// the lease after the last byte.
///
/// Threads: `add`, `remove` and `remove_unless_read` any; all else the threads of servers. A server
/// holds the spans while it copies bytes, a few megabytes at a time, and the spans change only
/// while no server does (guard `pin`): memory that is no longer a span is read by nobody. No server
/// begins to read while a change waits. The mutex is held only to count, never while bytes are
/// copied. Ownership: table and spans are lent, the table for the lifetime of this object, a span
/// from `add` until it is removed. Errors: `refused` for memory that overlaps a span, or for too
/// many spans.
class served_spans {
public:
  static constexpr std::size_t spans_max = 65'536;

  explicit served_spans(std::span<const slot_entry> leases) : leases_(leases) {}

  std::span<const slot_entry> leases() const noexcept { return leases_; }

  result<void> add(std::span<const std::byte> memory);
  /// Takes the span that begins at `begin` out of service, and waits until no server reads it.
  /// False when no span begins there.
  bool remove(const std::byte* begin);
  /// Does what `remove` does, if no server reads a span at this moment; otherwise nothing. Whether
  /// no span begins there any longer. For a simulator, which has no threads that could wait: beside
  /// servers that always read it may never succeed.
  bool remove_unless_read(const std::byte* begin);

  /// Whether bytes that were read under the lease before this call are what the lease's owner
  /// meant: `hit`, `stale`, or `wrong_key`.
  page_status judge(slot_id lease, generation gen, const page_key& key) const noexcept;

  /// A hold on all spans: while an object made by `read` lives, no span is removed.
  /// Threads: one thread has at most one while another thread may wait to change the spans.
  class reading {
  public:
    reading() = default;
    reading(reading&& from) noexcept : of_(std::exchange(from.of_, nullptr)) {}
    reading& operator=(reading&& from) noexcept;
    ~reading() { end(); }
    /// Whether all bytes from the first row to the last one lie in one span.
    /// @pre made by `served_spans::read`; well_formed(rows)
    bool covers(const memory_rows& rows) const noexcept;

  private:
    friend class served_spans;
    explicit reading(const served_spans& of) : of_(&of) {}
    void end() noexcept;

    const served_spans* of_ = nullptr;
  };
  reading read() const;

private:
  bool is_read() const noexcept;
  std::unique_lock<std::mutex> wait_until_unread();

  const std::span<const slot_entry> leases_;
  mutable std::mutex mutex_; ///< Guards `readings_`, `changes_waiting_`, and changes of `spans_`.
  mutable std::condition_variable changed_;
  mutable std::size_t readings_ = 0;
  std::size_t changes_waiting_ = 0;
  /// The spans, ordered by address. They change only under the mutex while nobody has a `reading`,
  /// so whoever has one looks at them without the mutex.
  std::vector<std::span<const std::byte>> spans_;
};

} // namespace peercache::rdma
