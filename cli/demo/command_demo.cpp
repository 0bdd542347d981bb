#include "bench/sample_statistics.hpp"
#include "bench/trace_generator.hpp"
#include "bench/trace_replay.hpp"
#include "cli/command.hpp"
#include "cli/demo/demo_disk.hpp"
#include "cli/demo/demo_replay.hpp"
#include "cli/held_signals.hpp"
#include "cli/node_process.hpp"
#include "cli/option_forms.hpp"
#include "cli/pool_room.hpp"
#include "cli/run_certificates.hpp"
#include "config/node_config.hpp"
#include "config/units.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace peercache::cli {

using metrics::metric;

namespace {

struct demo_options {
  std::uint32_t nodes = 3;
  std::string trace;
  std::uint64_t page_bytes = 16u << 10;
  std::uint64_t pool_bytes = 256u << 20;
  std::uint64_t requests = 0; ///< How many requests to replay; 0: all of the trace.
  std::uint64_t seed = 1;
  std::string node_program;
  rdma::plane_mode data_plane = rdma::plane_mode::automatic;
  std::uint64_t disk_bytes = 0; ///< Bytes of each node's disk tier; 0: no disk tier.
  std::string disk_path;        ///< Folder of the disk tiers; empty: beside the logs.
  config::disk_store_mode disk_store = config::disk_store_mode::bucket;
  bool restart = false;
  bool tls = false; ///< Nodes and clients have certificates of a CA of the run.
  bool keep_logs = false;
  bool keep = false; ///< Whether the nodes stay until a signal comes.
};

using trace = std::vector<bench::trace_request>;
using client_list = std::vector<std::unique_ptr<client::cache_client>>;

/// The requests to replay. A trace that cannot be read counts as the caller's mistake in the exit
/// code.
result<trace> requests_of(const demo_options& options) {
  bench::trace_generator_options generator{.seed = options.seed};
  if (options.requests != 0)
    generator.requests = options.requests;
  auto loaded = options.trace.empty() ? result<trace>(bench::generate_trace(generator))
                                      : bench::load_trace(options.trace);
  if (!loaded)
    return {errc::invalid_argument, "--trace: " + loaded.error().message};
  if (loaded->empty())
    return {errc::invalid_argument, "--trace: there is no request in " + options.trace};
  if (options.requests != 0 && loaded->size() > options.requests)
    loaded->resize(options.requests);
  return bench::with_dense_ids(std::move(*loaded));
}

/// Words of the option table's choices; data planes stand in the order of plane_mode.
constexpr auto data_plane_words = config::words_of<config::data_plane_mode>;
constexpr auto disk_store_words = config::words_of<config::disk_store_mode>;

result<client_list> connect_to(const std::vector<node_process>& nodes, rdma::plane_mode data_plane,
                               std::chrono::milliseconds timeout) {
  client_list clients;
  for (const auto& node : nodes) {
    client::client_options options;
    options.node_port = node.ports().control_port;
    options.cluster = node.launch().cluster;
    options.tls = node.launch().tls;
    options.timeout = timeout;
    options.rails.mode = data_plane;
    auto connected = client::cache_client::connect(options);
    if (!connected)
      return connected.error();
    clients.push_back(std::move(*connected));
  }
  return clients;
}

key_space space_of(const demo_options& options) {
  auto page_size = std::to_string(options.page_bytes);
  std::array<std::string_view, 2> fields = {"peercache-demo", page_size};
  return key_space(fields);
}

/// Replays all requests one after the other, request i through node i mod N: so the result does not
/// depend on how threads are scheduled. Ends early when a signal has come.
demo_counts replay_all(const trace& requests, client_list& clients, const demo_options& options,
                       const held_signals& signals) {
  demo_replay<client::cache_client> replay(static_cast<std::uint32_t>(options.page_bytes),
                                           space_of(options));
  progress_bar bar(stderr, "replaying", requests.size());
  for (std::size_t i = 0; i < requests.size() && !signals.came(); ++i) {
    replay.request(*clients[i % clients.size()], requests[i].page_ids);
    bar.update(i + 1, fmt::format("hit rate {}", human_percent(replay.counts().hit_rate())));
  }
  return replay.counts();
}

void add_origins(demo_report& report, const client_list& clients) {
  for (const auto& client : clients) {
    auto stats = client->stats();
    for (std::size_t i = 0; i < report.bytes_by_origin.size(); ++i)
      report.bytes_by_origin[i] += stats.get_bytes[i];
  }
}

result<void> add_evictions(demo_report& report, const std::vector<node_process>& nodes,
                           std::chrono::milliseconds timeout) {
  for (const auto& node : nodes) {
    auto admin = client::admin_client::connect("127.0.0.1", node.ports().control_port,
                                               node.launch().cluster, timeout, node.launch().tls);
    if (!admin)
      return admin.error();
    auto status = (*admin)->status();
    if (!status)
      return status.error();
    report.evictions += status->count(metric::evictions_total);
  }
  return {};
}

void add_references(demo_report& report, const trace& requests, const demo_options& options) {
  auto capacity_pages = options.nodes * (options.pool_bytes / options.page_bytes);
  report.lru_hit_rate = bench::simulate_global_lru(requests, capacity_pages).rate();
  report.unlimited_hit_rate = bench::simulate_unlimited(requests).rate();
}

result<std::vector<node_process>> start_nodes(const demo_options& options,
                                              const run_folder& folder) {
  local_cluster_options cluster{.count = options.nodes, .folder = folder.path()};
  cluster.prototype.program = node_program(options.node_program);
  cluster.prototype.cluster = fmt::format("demo-{}", ::getpid());
  cluster.prototype.pool_bytes = options.pool_bytes;
  if (options.tls) {
    auto files = make_run_certificates(folder.path() / "tls", cluster.prototype.cluster);
    if (!files)
      return files.error();
    cluster.certificate_of = std::move(*files);
  }
  cluster.prototype.flags = {
      "--data-plane", std::string(data_plane_words[static_cast<std::size_t>(options.data_plane)])};
  if (options.tls) // A browser has no certificate of this cluster.
    cluster.prototype.flags.insert(cluster.prototype.flags.end(), {"--metrics-readers", "anyone"});
  if (options.disk_bytes != 0) {
    const auto path =
        options.disk_path.empty() ? (folder.path() / "disk").string() : options.disk_path;
    const auto bucket_bytes =
        std::clamp<std::uint64_t>(options.disk_bytes / 16, 1u << 20, 256u << 20);
    for (const auto& word : {std::string("--disk-path"), path, std::string("--disk-bucket-size"),
                             config::format_size(bucket_bytes), std::string("--disk-size"),
                             config::format_size(options.disk_bytes), std::string("--disk-store"),
                             std::string(config::to_string(options.disk_store))})
      cluster.prototype.flags.push_back(word);
  }
  return start_local_cluster(cluster);
}

std::vector<std::uint64_t> distinct_pages(const trace& requests) {
  std::vector<std::uint64_t> ids;
  for (const auto& request : requests)
    ids.insert(ids.end(), request.page_ids.begin(), request.page_ids.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// Notes how many pages are on the nodes' disks. With `options.restart` also kills all nodes,
/// starts them again, and counts how many pages of the trace are found before and after. The number
/// of pages on disks does not tell that, because two disks may hold copies of one page.
result<void> show_disks(demo_report& report, const global_options& globals,
                        const demo_options& options, const trace& requests,
                        std::vector<node_process>& nodes, client_list& clients,
                        const held_signals& signals) {
  report.disk_bytes = options.disk_bytes;
  auto on_disk = settle_disks(nodes, globals.timeout());
  if (!on_disk)
    return on_disk.error();
  report.on_disk = *on_disk;
  if (!options.restart)
    return {};
  const auto space = space_of(options);
  const auto page_bytes = static_cast<std::uint32_t>(options.page_bytes);
  disk_survey before(page_bytes, space), after(page_bytes, space);
  before.run(*clients.front(), distinct_pages(requests));
  if (auto settled = settle_disks(nodes, globals.timeout()); !settled)
    // The survey's promotions drove pages out of memory, and these have not reached the disks in
    // time.
    return settled.error();
  clients.clear();
  if (auto again = kill_and_restart(nodes); !again)
    return again;
  auto connected = connect_to(nodes, options.data_plane, globals.timeout());
  if (!connected)
    return connected.error();
  clients = std::move(*connected);
  after.run(*clients.front(), distinct_pages(requests));
  auto& second = report.restarted.emplace(demo_report::second_life{});
  second.found_before = before.found();
  second.found_again = after.found();
  second.counts = replay_all(requests, clients, options, signals);
  second.wrong_bytes = before.wrong_bytes() + after.wrong_bytes() + second.counts.wrong_bytes;
  return {};
}

/// Stops the nodes in order when the demo ends, however it ends: a node that is killed leaves its
/// pool in shared memory.
struct nodes_stopped_at_end {
  std::vector<node_process>& nodes;
  ~nodes_stopped_at_end() { stop_nodes(nodes, std::chrono::seconds(15)); }
};

/// Says where the nodes are, and waits for a signal.
void keep_nodes(const std::vector<node_process>& nodes, const held_signals& signals) {
  std::vector<std::string> addresses;
  addresses.reserve(nodes.size());
  for (const auto& node : nodes)
    addresses.push_back(node.address());
  fmt::print(stderr,
             "the nodes stay until Ctrl-C: peercache --cluster {} --node {} status\n"
             "status page: {}://127.0.0.1:{}/\n",
             nodes.front().launch().cluster, fmt::join(addresses, ","),
             nodes.front().launch().tls.given() ? "https" : "http",
             nodes.front().ports().http_port);
  signals.wait();
}

/// A report with the options of the demo, before anything was replayed.
demo_report empty_report(const demo_options& options, std::string data_plane) {
  demo_report report;
  report.trace =
      options.trace.empty() ? fmt::format("generated, seed {}", options.seed) : options.trace;
  report.nodes = options.nodes;
  report.page_bytes = options.page_bytes;
  report.pool_bytes = options.pool_bytes;
  report.data_plane = std::move(data_plane);
  return report;
}

/// Runs the demo and prints its report. Errors: what failed, or that a signal came.
result<demo_report> run_demo(const global_options& globals, const demo_options& options,
                             const trace& requests, const run_folder& folder,
                             const held_signals& signals) {
  auto nodes = start_nodes(options, folder);
  if (!nodes)
    return nodes.error();
  const nodes_stopped_at_end stopper{*nodes};
  auto clients = connect_to(*nodes, options.data_plane, globals.timeout());
  if (!clients)
    return clients.error();
  auto report = empty_report(options, clients->front()->data_plane());
  auto begin = bench::clock::now();
  report.counts = replay_all(requests, *clients, options, signals);
  report.elapsed_s = bench::seconds_between(begin, bench::clock::now());
  add_origins(report, *clients);
  auto counted = add_evictions(report, *nodes, globals.timeout());
  if (counted && options.disk_bytes != 0 && !signals.came())
    counted = show_disks(report, globals, options, requests, *nodes, *clients, signals);
  clients->clear();
  if (signals.came())
    return {errc::closed, "stopped by a signal; nothing is left behind"};
  if (!counted)
    return counted.error();
  add_references(report, requests, options);
  print(globals, report.to_json(), report.to_text());
  if (options.keep)
    keep_nodes(*nodes, signals);
  return report;
}

result<void> check_options(const demo_options& options) {
  if (options.page_bytes % 8 != 0 || options.page_bytes > limits::page_bytes_max ||
      options.page_bytes == 0)
    return {errc::invalid_argument,
            fmt::format("--page-size: {} does not do: a page of the demo is a multiple of 8 bytes, "
                        "{} at most",
                        config::format_size(options.page_bytes),
                        config::format_size(limits::page_bytes_max))};
  if (options.pool_bytes < options.page_bytes)
    return {errc::invalid_argument, fmt::format("--pool-size: {} is smaller than one page of {}",
                                                config::format_size(options.pool_bytes),
                                                config::format_size(options.page_bytes))};
  return check_pools(options.nodes, options.pool_bytes, pool_room::of_machine());
}

/// The least share that must be found afterwards of the pages that were found before the nodes were
/// killed.
constexpr double found_again_least = 0.95;

/// Whether the demo went well: no byte was wrong, and the pages on disk outlived the nodes. Tells
/// on stderr when too few pages were found.
bool is_good(const demo_report& report) {
  if (!report.restarted)
    return report.counts.wrong_bytes == 0;
  const auto& second = *report.restarted;
  const bool found = second.found_before == 0 || second.share_found() >= found_again_least;
  if (!found)
    fmt::print(stderr, "peercache: only {} of the {} pages were found again, not {:.0f} %\n",
               second.found_again, second.found_before, found_again_least * 100);
  return found && report.counts.wrong_bytes == 0 && second.wrong_bytes == 0;
}

/// Runs the demo. Everything that the caller may have got wrong is checked before the first folder
/// and process are made.
exit_code demo(const global_options& globals, const demo_options& options) {
  if (auto fits = check_options(options); !fits)
    return fail(globals, fits.error());
  auto requests = requests_of(options);
  if (!requests)
    return fail(globals, requests.error());
  const held_signals signals;
  auto folder = run_folder::make("peercache-demo");
  if (!folder)
    return fail(globals, folder.error());
  auto report = run_demo(globals, options, *requests, *folder, signals);
  bool good = report && is_good(*report);
  bool logs = std::filesystem::exists(folder->path() / "node-1" / "node.log");
  if (logs && (options.keep_logs || (!good && !signals.came()))) {
    folder->keep();
    fmt::print(stderr, "peercache: the nodes' logs are in {}\n", folder->path().string());
  }
  if (!report)
    return fail(globals, report.error());
  return good ? exit_code::ok : exit_code::failed;
}

} // namespace

void add_demo_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "demo", "Start nodes on this machine, replay a chat service's requests, compare every byte");
  auto options = std::make_shared<demo_options>();
  add_number(*command, "--nodes", options->nodes, {1, 64}, "Node processes");
  command
      ->add_option("--trace", options->trace,
                   "Lines of {\"timestamp\",\"input_length\",\"output_length\",\"hash_ids\"} "
                   "[default: one is made up]")
      ->type_name("FILE");
  add_size(*command, "--page-size", options->page_bytes,
           "Of one page of 512 tokens; a multiple of 8 bytes, 64MiB at most");
  add_size(*command, "--pool-size", options->pool_bytes, "Memory of each node");
  add_number(*command, "--requests", options->requests, {0, 1'000'000'000},
             "Stop after so many requests; 0 goes on to the end of the trace");
  add_number(*command, "--seed", options->seed, {0, 1'000'000'000}, "Of the trace that is made up");
  command
      ->add_option("--node-program", options->node_program,
                   "Path of peercache-node [default: the one beside this program]")
      ->type_name("FILE");
  add_choice(*command, "--data-plane", options->data_plane, data_plane_words,
             "How pages travel between the nodes");
  add_size(*command, "--disk-size", options->disk_bytes, "Disk tier of each node; 0: none");
  command
      ->add_option("--disk-path", options->disk_path,
                   "Where the disk tiers lie [default: a temporary folder]")
      ->type_name("FOLDER");
  add_choice(*command, "--disk-store", options->disk_store, disk_store_words,
             "How pages lie on disk");
  command->add_flag("--tls", options->tls,
                    "Nodes and clients know each other by certificates of a CA made for the run");
  command->add_flag("--restart", options->restart,
                    "Then kill all nodes with -9, start them again, and see what the disks hold");
  command->add_flag("--keep", options->keep,
                    "Then leave the nodes running until Ctrl-C, and say where they are");
  command->add_flag("--keep-logs", options->keep_logs, "Leave the nodes' logs behind");
  command->callback([&line, options] {
    line.action = [options](const global_options& globals) { return demo(globals, *options); };
  });
}

} // namespace peercache::cli
