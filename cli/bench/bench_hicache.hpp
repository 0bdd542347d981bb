#pragma once

#include "cli/bench/bench_setup.hpp"
#include "cli/command.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

/// The make-up of one rank's pages of 16 tokens in bfloat16.
struct hicache_model {
  const char* name;
  std::uint32_t layers;
  std::uint32_t heads; ///< Heads of keys and values on one rank.
  std::uint32_t head_dim;
  std::uint32_t halves; ///< 2: K and V; 1: MLA.

  static constexpr std::uint32_t page_tokens = 16;
  static constexpr std::uint32_t batch_pages = 128; ///< Pages of one call, as SGLang makes it.

  std::uint32_t part_bytes() const { return page_tokens * layers * heads * head_dim * 2; }
  std::uint64_t page_bytes() const { return std::uint64_t{part_bytes()} * halves; }
  std::uint64_t batch_bytes() const { return page_bytes() * batch_pages; }
  bool is_mla() const { return halves == 1; }
};
std::span<const hicache_model> hicache_models();

struct hicache_bench_options {
  bench_options bench;
  hicache_model model = hicache_models()[0];
  std::uint32_t ranks = 1;
  std::uint32_t calls = 8; ///< Batches of one round.
  std::string python;      ///< Empty: the first that has the package and torch.
  bool check = false;
};

/// Node 0 or node 1 of the setup, as seen from the ranks, which are clients of node 0.
enum class bench_place : std::uint8_t { here, there };

/// One kind of call, in batches.
struct hicache_work {
  enum class kind : std::uint8_t { exists, get, set, request };
  kind what = kind::get;
  bench_place from = bench_place::here; ///< Where the wanted pages lie.
  std::uint32_t calls = 1;
};

/// Batches stored at each place, which exists and get walk through.
inline constexpr std::uint32_t hicache_stored_batches = 2;

/// The engine's ranks: a process of Python each, which drives PeerCacheStore.
/// Threads: one. Ownership: of the processes. Errors: results; what a rank says failed, is wrong
/// bytes, or takes too long.
class simulated_ranks {
public:
  static result<simulated_ranks> start(const bench_setup& setup,
                                       const hicache_bench_options& options);
  result<void> store(bench_place where);
  /// Runs all ranks at the same time; the result has the slowest one's seconds.
  result<bench::round_sample> run(const hicache_work& work);
  /// How many ranks made calls in the last run.
  std::size_t callers() const noexcept { return callers_; }
  /// The largest share of a call that Python's lock was held for, in each run's slowest rank.
  std::vector<double>& gil_held() noexcept { return gil_held_; }
  void pin(const std::vector<int>& cpus);

private:
  explicit simulated_ranks(const hicache_model& model) : model_(model) {}
  result<std::vector<nlohmann::json>> ask(const std::string& command);

  hicache_model model_;
  std::vector<child_process> ranks_;
  std::vector<double> gil_held_;
  std::size_t callers_ = 0;
};

/// Does the work of the Python ranks through the C++ client, for comparison. With MLA the first
/// rank writes the pages of all and the others read these, as in Python. Threads: one, which makes
/// a thread for each rank. Ownership: lends the setup's own memory.
class client_ranks {
public:
  static result<std::unique_ptr<client_ranks>> connect(bench_setup& setup,
                                                       const hicache_bench_options& options);
  ~client_ranks();
  result<void> store(bench_place where);
  result<bench::round_sample> run(const hicache_work& work);
  /// How many clients made calls in the last run.
  std::size_t callers() const noexcept { return callers_; }

private:
  class rank;
  client_ranks();
  std::vector<std::unique_ptr<rank>> ranks_;
  std::size_t callers_ = 0;
};

/// Errors: as the parts say; `not_found` without a Python that has the package.
result<std::vector<bench_row>> run_hicache_bench(const hicache_bench_options& options);

/// `bench hicache`, below `bench`.
void add_hicache_bench(command_line& line, CLI::App& bench);

} // namespace peercache::cli
