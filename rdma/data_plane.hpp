#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "common/page_part.hpp"
#include "common/page_status.hpp"
#include "common/result.hpp"
#include "rdma/memory_rows.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace peercache::rdma {

using clock = std::chrono::steady_clock;

/// The process that serves pages at an address. A data plane reads nothing from a process that says
/// it is another incarnation than `inc`.
struct peer_endpoint {
  node_id node;
  incarnation inc;
  std::string host;
  std::uint16_t port = 0;
  std::string cluster;    ///< Name of the cluster, which the hello names.
  std::uint8_t rails = 0; ///< Rails on which the process serves READs; 0 means TCP only.
  /// What the process serves: the pages of a pool, or memory under leases. An incarnation does not
  /// serve both.
  data_service service = data_service::pool;
  std::string name; ///< Name of the process in `peer_counters`; empty: no counts by name.
};

/// One page to read: where it is at the peer, what says that it is the right one, and where the
/// bytes go. From a pool: `slot` holds the page, and `gen` and `key` are the location record's.
/// From memory of a peer (`data_service::handoff`): `source` says where the bytes lie, and `slot`,
/// `gen` and `key` name the lease, which says whether the bytes that arrived are those that the
/// peer meant. From an area beside a pool, in a batch that its caller judges: `source` is one row,
/// whose address counts from the first byte of the peer's lowest area; `slot`, `gen`, `key` and
/// `checksum` mean nothing.
struct page_read {
  page_key key;
  slot_id slot;
  generation gen;
  memory_rows source; ///< Rows of the peer's memory; none for a page of a pool.
  std::uint64_t checksum = 0;
  std::uint32_t length_bytes = 0; ///< Length of the page; equals the sum of its parts' lengths.
  std::uint32_t first_part = 0;   ///< Index of the page's first part in `read_batch::parts`.
  std::uint32_t part_count = 0;
  bool verify = true; ///< Whether the checksum of the bytes that arrived is compared.
  page_status status = page_status::pending; ///< Result of the read: the data plane sets it.
};

/// An object that is told when batches are complete, so that no thread has to wait for them.
/// Threads: `on_complete` is called in the thread that finishes the batch: a data plane's, or the
/// thread that submits it. Lifetime: outlives every batch that names it, and the call of
/// `on_complete`, at which the batch may be gone already.
class batch_listener {
public:
  virtual ~batch_listener() = default;

  /// Called once for each batch that names this listener, when the batch is complete and perhaps
  /// already destroyed by its owner. Must not block.
  virtual void on_complete() noexcept = 0;
};

/// Pages of one peer that one caller waits for.
/// Ownership: the caller's, lent to the data plane from `submit` until `complete()`; the parts
/// likewise. After completion the data plane writes neither to the batch nor to the parts, whatever
/// arrives late. Every page has a final status by then; a page that is not `hit` may have any bytes
/// in its parts.
struct read_batch {
  peer_endpoint peer;
  std::vector<page_read> pages;
  std::vector<page_part> parts;
  clock::time_point deadline;
  /// Listener that is told when the batch is complete; null: nobody is told. Threads may `wait` for
  /// the batch in either case.
  batch_listener* listener = nullptr;
  /// Whether the data plane judges the bytes that arrive. False: the caller does, and `pages` are
  /// pieces of the areas that the peer serves beside its pool (`rail_servers::add_area`). Then
  /// `hit` means that each byte of the piece was READ at some moment between `submit` and
  /// completion, from the process that `peer` names, and nothing else: the bytes may be torn, of
  /// several moments, in any order, of a record that is gone, or of one that is being written.
  /// Nothing is read behind them, and no checksum is compared. So the bytes themselves must say
  /// whether they count, and pages, whose bytes do not, are never read this way. `unreachable` is a
  /// piece that does not lie in announced areas as a whole, of a peer without areas, or over a
  /// plane that has no one-sided READs; all other statuses are as for pages.
  bool judged = true;

  /// Marks the batch as complete and wakes its waiters: the data plane calls this exactly once,
  /// after its last write to the batch. The batch may be freed by its owner as soon as `state_` is
  /// stored.
  void finish() noexcept;
  /// Gives every page `status` and finishes the batch: for a batch that the data plane does not
  /// take.
  void fail(page_status status) noexcept;
  bool complete() const noexcept {
    return state_.load(std::memory_order_acquire) == state_complete;
  }
  /// Blocks the calling thread until the batch is complete: a short spin, then a futex wait.
  void wait() const noexcept;
  /// As `wait`, but returns at `until` at the latest. Returns whether the batch is complete.
  bool wait_until(clock::time_point until) const noexcept;
  /// Makes a completed batch usable again. @pre no thread waits for the batch
  void reset() noexcept { state_.store(state_open, std::memory_order_relaxed); }

private:
  static constexpr std::uint32_t state_open = 0;
  /// The batch is open, and a waiter sleeps that `finish` has to wake.
  static constexpr std::uint32_t state_slept_on = 1;
  static constexpr std::uint32_t state_complete = 2;

  mutable std::atomic<std::uint32_t> state_{state_open};
};

struct data_plane_stats {
  std::uint64_t pages = 0, bytes = 0, batches = 0, connects = 0, connections_closed = 0,
                breaker_opened = 0;
  std::uint64_t by_status[page_status_count] = {};
};

/// The reader's half of the data plane: pages of other hosts into the caller's memory.
/// Threads: `wake` and `stats` are for any thread; all else belongs to the one thread that runs it,
/// in place of which another one may run it after `adopt`, as long as the two exclude each other.
/// Errors: as page statuses only; nothing throws.
class data_plane {
public:
  virtual ~data_plane() = default;

  /// Takes the batch until it completes, which happens by the batch's deadline, whatever the peer
  /// does. On a time-out the connection that may still carry the batch's bytes is destroyed before
  /// the batch is finished.
  virtual void submit(read_batch& batch) = 0;

  /// Completes a batch that was submitted and is not complete as `closed`, for its pages that are
  /// not decided; the connections that may still carry its bytes are destroyed before. Does nothing
  /// for any other batch, and does not read it: it may be destroyed already.
  virtual void cancel(const read_batch& batch) = 0;

  /// Sends, receives and completes what is possible without blocking. Returns true when something
  /// moved.
  virtual bool poll(clock::time_point now) = 0;

  /// Makes the calling thread the one that runs the plane.
  virtual void adopt() noexcept {}

  /// Takes the batch as `submit` does and, where that needs no wait for anybody else, works on
  /// nothing but this batch until it is complete or `at_most` has passed. True: the batch is
  /// complete, and may be gone already. False: the plane has to be polled.
  virtual bool read_now(read_batch& batch, clock::time_point /*now*/, clock::duration /*at_most*/) {
    submit(batch);
    return false;
  }

  /// Prepares a sleep of the thread that runs the plane until `descriptor` is readable. Returns how
  /// long it may sleep, no longer than `at_most`; zero: there is something to poll. @pre the plane
  /// has a descriptor
  virtual clock::duration rest(clock::duration at_most) { return at_most; }

  /// Whether the plane has no batch.
  virtual bool idle() const noexcept { return false; }

  /// Sleeps until there is something to poll, the next deadline has come, `wake` is called, or
  /// `at_most` has passed.
  virtual void wait(clock::duration at_most) = 0;
  virtual void wake() noexcept = 0;
  /// A descriptor for the epoll of a thread that runs other things as well and does not call
  /// `wait`. It is readable when something has come since a `poll` after which nothing moved; it
  /// does not report deadlines. Negative: the plane has no descriptor.
  virtual int descriptor() const noexcept { return -1; }

  /// Completes every batch as `closed` and drops all connections.
  virtual void shutdown() = 0;

  virtual data_plane_stats stats() const = 0;
};

} // namespace peercache::rdma
