#pragma once

#include "bench/raw_limits.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/verbs/verbs_server_options.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace peercache::cli {

/// The pages that `peercache rdma-server` has and `peercache bench rdma` reads: for each size a run
/// of pages, one run behind the other. Both processes work the plan out from the same sizes, so
/// that no location needs to travel.
/// Threads: none. Invariant: pages begin at granules, as in a pool.
class rdma_page_plan {
public:
  struct run {
    std::uint32_t page_bytes = 0;
    std::uint32_t pages = 0;
    std::uint32_t first_granule = 0;
  };

  /// Plans a run of about `run_bytes` for each size, with at most as many pages as a batch may
  /// have. Errors: `invalid_argument` for a size that no page has.
  static result<rdma_page_plan> make(const std::vector<std::uint64_t>& sizes,
                                     std::uint64_t run_bytes);

  const std::vector<run>& runs() const noexcept { return runs_; }
  std::uint32_t granules() const noexcept { return granules_; }
  std::uint64_t table_bytes() const noexcept;

  /// Describes page `index` as something to read, with what its location record would say.
  ///
  /// @pre index < of.pages
  static rdma::page_read page(const run& of, std::uint32_t index);
  /// The id of page `index` for `bench::fill_page` and `bench::check_page`.
  static std::uint32_t id(const run& of, std::uint32_t index) noexcept;

private:
  std::vector<run> runs_;
  std::uint32_t granules_ = 0;
};

/// The server's memory, laid out like a pool's: slot table, then pages, all filled in.
class rdma_bench_pool {
public:
  static result<rdma_bench_pool> make(const rdma_page_plan& plan);
  rdma::served_region served() const noexcept;

private:
  rdma_bench_pool(const rdma_page_plan& plan, bench::big_memory memory);
  void fill(const rdma_page_plan::run& run);

  bench::big_memory memory_;
  std::uint64_t table_bytes_;
  std::uint32_t granules_;
};

/// The incarnation that reader and server name in the handshake.
inline constexpr incarnation rdma_bench_life{0x7264'6d61, 1};
inline constexpr const char* rdma_bench_cluster = "peercache-bench-rdma";

} // namespace peercache::cli
