#pragma once

#include "common/limits.hpp"
#include "handoff/memory_range.hpp"
#include "handoff/read_order.hpp"
#include "handoff/transfer_messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff {

/// What a transfer worker reads into its own memory, for calls of its engine and for requests of
/// its peers alike: jobs in, reads out (`next_read`). Each job is reported once, when no read can
/// still write to the destinations of its pieces; the first read that is not good ends the job.
///
/// Jobs take turns, a read each, while less than `wire_bytes_max` bytes are under way; the last
/// read may exceed that limit.
///
/// Threads: one owner. Errors: whatever becomes of a read, at worst its job ends.
class transfer_reads {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    std::uint64_t wire_bytes_max = 256u << 20;
    std::uint64_t read_bytes_max = 64u << 20; ///< Bytes at which a read gets no further piece.
    std::uint32_t read_pieces_max = limits::batch_pages_max;
    /// Longer pieces are cut, so that they can travel over several rails.
    std::uint32_t piece_bytes_max = 8u << 20;
  };
  struct job {
    peer_id from;
    lease under;
    time_point deadline;
    /// Pieces to read; each goes to memory that is registered here.
    std::vector<transfer_piece> pieces;
  };
  struct finished {
    join_id id;
    bool good = false;
    std::string reason; ///< Why the job has failed, for people.
  };

  explicit transfer_reads(options opts) : options_(opts) {}

  join_id start(job wanted);
  /// Ends the job early. Does nothing for a job that has finished.
  void cancel(join_id id, const std::string& reason);

  /// Orders the next read, if pieces wait and the limits allow a read; its parts are the data
  /// plane's until `finish_read`.
  std::optional<read_order> next_read();
  /// The deadline of the job that a read is ordered for or under way for.
  time_point deadline_of(join_id id) const { return jobs_.at(id).what.deadline; }
  /// Reports a read whose parts no channel can write to any longer.
  /// @param good whether every piece arrived while its lease stood
  /// @pre `id` was ordered and not reported yet
  void finish_read(read_id id, bool good, const std::string& reason);

  std::vector<finished> take_finished() { return std::exchange(finished_, {}); }
  /// Jobs whose running reads have to be cancelled; each read is still reported.
  std::vector<join_id> take_cancels() { return std::exchange(cancels_, {}); }

  /// Whether the job has not finished, and one of its pieces goes to this memory.
  bool writes_to(join_id id, const memory_range& memory) const;
  /// Whether a piece of any job that has not finished goes to this memory.
  bool writes_to(const memory_range& memory) const;
  std::size_t jobs() const noexcept { return jobs_.size(); }
  std::uint64_t wire_bytes() const noexcept { return wire_bytes_; }

private:
  struct open_job {
    job what;
    std::size_t next = 0;     ///< The first piece that is not ordered as a whole.
    std::uint64_t offset = 0; ///< Bytes of the piece at `next` that are ordered.
    std::size_t reads = 0;    ///< Reads of the job that are under way.
    std::optional<std::string> failure;

    bool all_ordered() const noexcept { return failure || next == what.pieces.size(); }
  };
  struct open_read {
    join_id job;
    std::uint64_t bytes = 0;
  };

  read_order read_of(join_id id, open_job& from);
  void add_piece(read_order& order, open_job& from) const;
  void fail(join_id id, open_job& at, const std::string& reason);
  void settle(join_id id);

  options options_;
  join_id next_job_{1};
  read_id next_read_{1};
  std::map<join_id, open_job> jobs_;
  std::deque<join_id> waiting_; ///< Jobs with pieces to order, in turn; some may have finished.
  std::map<read_id, open_read> reads_;
  std::uint64_t wire_bytes_ = 0;
  std::vector<finished> finished_;
  std::vector<join_id> cancels_;
};

} // namespace peercache::handoff
