#pragma once

#include "rdma/read_lane.hpp"

#include <memory>
#include <span>
#include <vector>

namespace peercache::rdma {

/// One batch over several lanes: pages go to the rail with the fewest bytes outstanding, the ones
/// of the caller's NUMA node first among equals; pages that a lane could not reach go to the
/// others, and to TCP when no rail is left. Threads: one, the caller's. Ownership: lends lanes and
/// the batch from `start` to the end of `finish`. Errors: as page statuses.
class striped_read {
public:
  /// @param numa_node the caller's, -1 when unknown
  striped_read(std::span<const std::unique_ptr<read_lane>> lanes, read_batch& whole,
               std::int32_t numa_node)
      : lanes_(lanes), whole_(whole), numa_node_(numa_node), failed_(lanes.size(), false),
        carriers_(whole.pages.size(), read_lane::kind::tcp) {}

  /// Hands the pages to lanes; does not block.
  void start();
  /// Waits until every page has its status.
  void finish();

  /// The kind of lane that brought the page, or tried last.
  read_lane::kind carrier(std::size_t page) const noexcept { return carriers_[page]; }

  /// A lane gets so many bytes before the next one is looked for: small batches stay together.
  static constexpr std::uint64_t stripe_bytes = 256u << 10;

private:
  struct piece {
    read_lane* lane = nullptr;
    std::uint64_t bytes = 0;
    read_batch batch;
    std::vector<std::uint32_t> pages; ///< Indexes into the whole.
  };

  read_lane* choose() const noexcept;
  bool better(const read_lane& one, const read_lane& other) const noexcept;
  bool usable(std::size_t lane) const noexcept;
  void send(std::span<const std::uint32_t> pages);
  piece& piece_on(read_lane& lane);
  void submit_pieces();
  /// Takes what the pieces brought; the pages that another lane may still reach.
  std::vector<std::uint32_t> collect();

  const std::span<const std::unique_ptr<read_lane>> lanes_;
  read_batch& whole_;
  const std::int32_t numa_node_;
  std::vector<bool> failed_; ///< Lanes that could not reach the peer in this read.
  std::vector<std::unique_ptr<piece>> pieces_;
  std::vector<read_lane::kind> carriers_; ///< The last lane's kind, by page of the whole.
};

/// The NUMA node that the calling thread runs on; -1 when the kernel does not say.
std::int32_t current_numa_node() noexcept;

} // namespace peercache::rdma
