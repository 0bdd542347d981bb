#pragma once

#include "rdma/read_lane.hpp"

#include <memory>
#include <span>
#include <vector>

namespace peercache::rdma {

/// One batch over several lanes: pages go to the rail with the fewest bytes outstanding, and among
/// equals to a rail of the caller's NUMA node; pages that one lane could not bring go to another
/// lane, and to TCP when no rail is left. Threads: one, the caller's. Ownership: the caller lends
/// lanes and the batch from `start` until `finish` has returned, or `advance` has returned true.
/// Errors: as page statuses.
class striped_read {
public:
  /// Prepares the read of `whole` over `lanes`. @param numa_node NUMA node of the caller, -1 when
  /// unknown
  striped_read(std::span<const std::unique_ptr<read_lane>> lanes, read_batch& whole,
               std::int32_t numa_node)
      : lanes_(lanes), whole_(whole), numa_node_(numa_node), failed_(lanes.size(), false),
        carriers_(whole.pages.size(), read_lane::kind::tcp) {}

  /// Hands the pages to lanes; does not block.
  void start();
  /// Does as `start`. The calling thread, which has nothing to do but to wait for this read, may
  /// work on it for some milliseconds, where that is faster (`read_lane::submit_short`).
  void start_alone();
  /// Waits until every page has its status. An interruption of the thread cancels the read.
  void finish();
  /// When all pieces are complete, takes their results and hands pages that another lane may bring
  /// to that lane; does not block. Returns whether every page has its status. The batch's listener
  /// is told of each piece that completes.
  bool advance();
  /// Ends the read early: no further lane is tried, and pages that no lane has decided become
  /// `closed`, each after the connections that may write to it are destroyed. `finish` or `advance`
  /// follows as before.
  void cancel();

  /// The kind of the lane that brought a page, or that was the last to try.
  read_lane::kind carrier(std::size_t page) const noexcept { return carriers_[page]; }

  /// Most bytes of a read on which the caller works itself.
  static constexpr std::uint64_t alone_bytes = 4u << 20;
  /// Bytes of a batch that a lane gets before the next lane is chosen, so that a small batch stays
  /// on one lane.
  static constexpr std::uint64_t stripe_bytes = 256u << 10;

private:
  struct piece {
    read_lane* lane = nullptr;
    std::uint64_t bytes = 0;
    read_batch batch;
    std::vector<std::uint32_t> pages; ///< Indexes into the pages of the whole batch.
  };

  read_lane* choose() const noexcept;
  bool better(const read_lane& one, const read_lane& other) const noexcept;
  bool usable(std::size_t lane) const noexcept;
  /// Gives the pages to lanes. An exception leaves nothing under way.
  void send(std::span<const std::uint32_t> pages);
  void cut(std::span<const std::uint32_t> pages);
  piece& piece_on(read_lane& lane);
  void submit_pieces();
  /// Waits until the piece is complete, and cancels the read when the thread is interrupted.
  void await(const read_batch& piece);
  /// Takes the statuses of the pieces' pages into the whole batch. Returns the pages that failed in
  /// a way that another lane may mend, as indexes into the whole batch. @pre the pieces are
  /// complete
  std::vector<std::uint32_t> collect();

  const std::span<const std::unique_ptr<read_lane>> lanes_;
  read_batch& whole_;
  const std::int32_t numa_node_;
  bool cancelled_ = false;
  bool alone_ = false;       ///< The caller waits for nothing else.
  std::vector<bool> failed_; ///< Lanes that could not reach the peer in this read.
  std::vector<std::unique_ptr<piece>> pieces_;
  /// Kind of the last lane that carried each page, by index into the whole batch.
  std::vector<read_lane::kind> carriers_;
};

/// The NUMA node that the calling thread runs on; -1 when the kernel does not say.
std::int32_t current_numa_node() noexcept;

} // namespace peercache::rdma
