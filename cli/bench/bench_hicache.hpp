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

/// The shape of the pages that one rank of an engine stores: pages of 16 tokens in bfloat16.
struct hicache_model {
  const char* name;
  std::uint32_t layers;
  std::uint32_t heads; ///< Heads of keys and values that one rank has.
  std::uint32_t head_dim;
  /// Parts of a page: 2 when keys and values are apart, 1 when they are in one part (MLA).
  std::uint32_t halves;

  static constexpr std::uint32_t page_tokens = 16;
  /// Pages of one call, as many as SGLang passes.
  static constexpr std::uint32_t batch_pages = 128;

  std::uint32_t part_bytes() const { return page_tokens * layers * heads * head_dim * 2; }
  std::uint64_t page_bytes() const { return std::uint64_t{part_bytes()} * halves; }
  std::uint64_t batch_bytes() const { return page_bytes() * batch_pages; }
  bool is_mla() const { return halves == 1; }
};
std::span<const hicache_model> hicache_models();

struct engine_door;

struct hicache_bench_options {
  bench_options bench;
  const engine_door* door = nullptr; ///< Set before the bench runs.
  hicache_model model = hicache_models()[0];
  std::uint32_t ranks = 1;
  std::uint32_t calls = 8; ///< Batches that one rank moves in one round.
  std::string python;      ///< Path of Python; empty: /usr/bin/python3.
  bool check = false;
};

/// Where pages are, as seen by the ranks, which are clients of node 0: `here` is node 0 of the
/// setup, `there` node 1.
enum class bench_place : std::uint8_t { here, there };

/// A round of the ranks' work: `calls` calls of one kind, each with one batch.
struct hicache_work {
  enum class kind : std::uint8_t { exists, get, set, request };
  kind what = kind::get;
  bench_place from = bench_place::here; ///< The place of the pages that exists and get ask for.
  std::uint32_t calls = 1;
};

/// A measurement of an `engine_door`.
struct engine_case {
  const char* name;
  hicache_work::kind what;
  bench_place from;
  /// The wanted share of the C++ client's rate; empty: no share is asked for.
  std::optional<double> target;
};

/// A door, which is a connector of PeerCache for one kind of engine in Python, and the program that
/// drives it as the engine does.
struct engine_door {
  const char* command;   ///< The word after `peercache bench`.
  const char* about;     ///< The description in the command's help.
  const char* simulator; ///< The Python module that is run.
  const char* simulator_needs;
  /// Cases in the order of measuring. Sets come last, since they fill the pool with new pages,
  /// while exists and get need the stored ones.
  std::span<const engine_case> cases;
  /// The name of a further case: gets from the other host beside a raw socket. Null: there is none.
  const char* raw_case;
  /// Whether a page is one piece of memory and the engine one process; else K and V are apart, and
  /// each rank is a process.
  bool is_one_piece;
};
std::span<const engine_door> engine_doors();

/// How many batches are stored at each place; exists and get walk through these batches.
inline constexpr std::uint32_t hicache_stored_batches = 2;

/// The engine's ranks: one Python process each, which drives the door.
/// Threads: one. Ownership: of the processes. Errors: results; a rank fails when it says so, gets
/// wrong bytes or takes too long.
class simulated_ranks {
public:
  static result<simulated_ranks> start(const bench_setup& setup,
                                       const hicache_bench_options& options);
  result<void> store(bench_place where);
  /// Runs all ranks at the same time; the result has the seconds of the slowest rank.
  result<bench::round_sample> run(const hicache_work& work);
  /// How many ranks made calls in the last run.
  std::size_t callers() const noexcept { return callers_; }
  /// The share of a call for which Python's lock (GIL) was held, one entry per run that measured
  /// it: the largest share among the ranks.
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
/// rank writes the pages of all ranks and the others read these, as in Python. Threads: one, which
/// makes a thread for each rank. Ownership: borrows the setup's own memory.
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

/// Runs the benchmark and returns its rows. Errors: those of starting nodes and ranks and of their
/// calls; `not_found` without a Python that has the package.
result<std::vector<bench_row>> run_hicache_bench(const hicache_bench_options& options);

/// Adds the commands `peercache bench hicache`, `vllm` and `lmcache`.
void add_engine_benches(command_line& line, CLI::App& bench);

} // namespace peercache::cli
