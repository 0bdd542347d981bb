#pragma once

#include "common/circuit_breaker.hpp"
#include "rdma/data_plane.hpp"

#include <cstdint>
#include <vector>

namespace peercache::rdma {

struct peer_counts;

/// Pages of one batch that travel in one request: `order[first .. first + count)` of its job.
struct sub_request {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

struct sub_request_limits {
  std::uint32_t pages_max = 128;
  std::uint64_t bytes_max = 8u << 20;
};

/// A batch on its way: which of its pages still have to be asked for, and in which requests.
/// Threads: none; the plane's owner serializes. Ownership: the caller lends the batch until
/// `finish`. Invariants: (1) a page is either decided (status not `pending`) or in exactly one
/// sub-request, which is in `subs` from `next` on or in the hands of a channel; (2)
/// `undecided_subs` is the number of these sub-requests.
struct batch_job {
  std::uint64_t id = 0;
  read_batch* batch = nullptr;
  peer_counts* counts = nullptr; ///< Counts of the batch's peer; null: nobody counts by peer.
  /// Indexes, into the batch's pages, of the pages that are asked for.
  std::vector<std::uint32_t> order;
  std::vector<sub_request> subs;
  std::uint32_t next = 0; ///< Index of the first sub-request in `subs` that no channel has taken.
  std::uint32_t undecided_subs = 0;
  std::uint64_t bytes = 0;
  bool answered = false; ///< The peer has answered something for this batch.
  bool failed = false;   ///< A connect failed, or the peer was silent up to the deadline.
  bool retried = false;

  bool has_untaken() const noexcept { return next < subs.size(); }
  /// Takes the next sub-request for a channel. @pre has_untaken()
  sub_request take() noexcept;
  /// Puts a sub-request back, to be asked for again: its connection died before any page of it was
  /// decided.
  void put_back(const sub_request& sub);
  void decided() noexcept;

  page_read& page(std::uint32_t position) noexcept { return batch->pages[order[position]]; }

  /// Makes a job whose batch has finished, or goes by another job, a fresh one, which keeps its
  /// memory.
  void clear() noexcept {
    batch = nullptr;
    order.clear();
    subs.clear();
    next = undecided_subs = 0;
    bytes = 0;
    answered = failed = retried = false;
  }

  /// Tells the breaker of the batch's peer, once, how the batch ends: with `undecided` for the
  /// pages that are pending. Returns how often the breaker opened by that.
  std::uint64_t report_to(circuit_breaker& breaker, page_status undecided,
                          clock::time_point now) const noexcept;
  /// Gives the pages that are still pending `status`, counts, and finishes the batch, which belongs
  /// to its caller again then.
  void finish(page_status status, data_plane_stats& stats) noexcept;
};

/// Checks the batch and cuts it into sub-requests. Pages whose parts do not add up, whose source is
/// not of the peer's service or does not fit the kind of batch, or that exceed a limit become
/// `bad_size` at once and are never asked for.
void plan(batch_job& job, read_batch& batch, const sub_request_limits& limits);

/// Finishes a batch that is refused, so that none of its pages is asked for. The batch is counted
/// before it finishes, because its owner may free it right after.
void refuse(read_batch& batch, page_status status, data_plane_stats& stats) noexcept;

} // namespace peercache::rdma
