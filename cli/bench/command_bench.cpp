#include "cli/bench/bench_disk.hpp"
#include "cli/bench/bench_handoff.hpp"
#include "cli/bench/bench_hicache.hpp"
#include "cli/bench/bench_outcome.hpp"
#include "cli/bench/bench_rdma.hpp"
#include "cli/bench/bench_setup.hpp"
#include "cli/command.hpp"
#include "cli/option_forms.hpp"
#include "cli/pool_room.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace peercache::cli {

namespace {

struct command_options {
  bench_options bench;
  bool check = false;
};

struct bench_group {
  std::vector<std::string> names; ///< Names of the rows that this group adds.
  std::function<result<void>(bench_setup&, std::vector<bench_row>&)> measure;
  bool on_disk = false; ///< Whether the nodes have disk tiers.
  /// Whether each page's record is kept by one node only, so that the client's own node does not
  /// know what the other one is to be asked.
  bool one_owner = false;
};

/// The groups of measurements, latencies first: latencies load the machine little, so that it is
/// still cool for the copies.
std::vector<bench_group> make_groups(bool with_disk) {
  std::vector<bench_group> groups = {
      {.names = {"exists", "exists_pipelined"}, .measure = bench_exists, .one_owner = true},
      {.names = {"get_other_host", "get_other_host_cached_location",
                 "get_other_host_directory_lookup"},
       .measure = bench_network,
       .one_owner = true}};
  for (auto bytes : copy_page_sizes)
    groups.push_back({{"get_same_host"},
                      [bytes](auto& setup, auto& rows) { return bench_gets(setup, bytes, rows); }});
  for (auto bytes : copy_page_sizes)
    groups.push_back(
        {{"set"}, [bytes](auto& setup, auto& rows) { return bench_sets(setup, bytes, rows); }});
  groups.push_back({{"set_one"}, bench_single_sets});
  if (with_disk)
    groups.push_back({{"get_other_host_disk"}, bench_other_host_disk, true});
  return groups;
}

/// The names of all groups, each once, in the order of the measurements.
std::vector<std::string> names_of(const std::vector<bench_group>& groups) {
  std::vector<std::string> names;
  for (const auto& group : groups)
    for (const auto& name : group.names)
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

result<void> check_names(const bench_options& options, const std::vector<bench_group>& groups) {
  for (const auto& name : options.only) {
    auto known = names_of(groups);
    if (std::find(known.begin(), known.end(), name) == known.end())
      return {errc::invalid_argument,
              fmt::format("--only: there is no measurement '{}'; there are {}{}", name,
                          fmt::join(known, ", "),
                          options.disk_path.empty() ? ", and more with --disk-path" : "")};
  }
  return {};
}

/// Runs the groups that are wanted, each with nodes of its own, so that no group finds its pools
/// filled by another.
result<std::vector<bench_row>> run_bench(const bench_options& options) {
  auto groups = make_groups(!options.disk_path.empty());
  if (auto known = check_names(options, groups); !known)
    return known.error();
  std::vector<bench_row> rows;
  progress_bar bar(stderr, "measuring", groups.size());
  std::uint64_t done = 0;
  for (const auto& group : groups) {
    bar.update(done++, group.names.front());
    bool wanted = std::any_of(group.names.begin(), group.names.end(),
                              [&](const auto& name) { return options.wants(name); });
    if (!wanted)
      continue;
    auto own = options;
    if (!group.on_disk)
      own.disk_path.clear();
    if (group.one_owner)
      own.directory_replicas = 1;
    auto setup = bench_setup::make(own);
    if (!setup)
      return setup.error();
    if (auto measured = group.measure(**setup, rows); !measured)
      return error{measured.error().code, group.names.front() + ": " + measured.error().message};
  }
  return rows;
}

exit_code bench_command(const global_options& globals, const command_options& options) {
  auto largest_batch = std::uint64_t{4} * 32 << 20;
  if (options.bench.memory_bytes < largest_batch || options.bench.pool_bytes < 4 * largest_batch)
    return fail(
        globals,
        {errc::invalid_argument,
         "--memory is at least 128MiB and --pool-size 512MiB: four batches of 32 pages of 4 MiB"});
  if (auto fits = check_pools(2, options.bench.pool_bytes, pool_room::of_machine()); !fits)
    return fail(globals, fits.error());
  return print_outcome(globals, run_bench(options.bench), options.check);
}

void add_raw_server(command_line& line) {
  auto* command =
      line.app.add_subcommand("raw-server", "The other end of the raw limits")->group("");
  auto memory_bytes = std::make_shared<std::uint64_t>(512u << 20);
  command->add_option("--memory", *memory_bytes, "Bytes that replies come from");
  command->callback([&line, memory_bytes] {
    line.action = [memory_bytes](const global_options&) {
      return bench::run_raw_server(*memory_bytes) == 0 ? exit_code::ok : exit_code::failed;
    };
  });
}

} // namespace

void add_bench_command(command_line& line) {
  add_raw_server(line);
  auto* command = line.app.add_subcommand(
      "bench", "Measure each operation beside this machine's own limit, on two nodes of its own");
  auto options = std::make_shared<command_options>();
  auto& bench = options->bench;
  add_number(*command, "--rounds", bench.rounds, {1, 1000}, "Rounds, of which the median counts");
  add_size(*command, "--memory", bench.memory_bytes,
           "Of each buffer: far more than the caches hold");
  add_size(*command, "--pool-size", bench.pool_bytes, "Memory of each of the two nodes");
  add_size(*command, "--round-bytes", bench.round_bytes, "Moved in one round of a copy");
  add_number(*command, "--calls", bench.calls, {1, 1'000'000},
             "Calls of a latency measurement in one round");
  command->add_flag(
      "--pin,!--no-pin", bench.pin,
      "Put client and nodes on CPUs of their own where latency counts [default: pin]");
  add_choice(*command, "--tls", bench.tls, bench_tls_words,
             "What of the connections between the processes is inside TLS");
  command->add_option("--only", bench.only, "Operations to measure, by their names [default: all]")
      ->type_name("NAME")
      ->delimiter(',');
  command
      ->add_option("--disk-path", bench.disk_path,
                   "Folder: pages on the other node's disk, which lies there, are measured, too")
      ->type_name("FOLDER");
  command
      ->add_option("--node-program", bench.node_program,
                   "Path of peercache-node [default: the one beside this program]")
      ->type_name("FILE");
  command->add_flag("--check", options->check, "End with 1 when a target is missed");
  add_rdma_bench(line, *command);
  add_disk_bench(line, *command);
  add_engine_benches(line, *command);
  add_handoff_bench(line, *command);
  command->callback([&line, options, command] {
    if (!command->get_subcommands().empty())
      return; // A subcommand, such as `bench rdma`, has set an action of its own.
    line.action = [options](const global_options& globals) {
      return bench_command(globals, *options);
    };
  });
}

} // namespace peercache::cli
