#include "cli/node_process.hpp"

#include "client/admin_client.hpp"
#include "metrics/metric_table.hpp"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>

namespace peercache::cli {

using metrics::metric;

namespace {

template <class Number>
bool read_field(std::string_view& line, std::string_view name, Number& value) {
  if (!line.starts_with(name))
    return false;
  line.remove_prefix(name.size());
  auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (failed != std::errc{})
    return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return true;
}

/// The last few lines of a node's log, for an error message that says why the node failed.
std::string last_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > 5)
      lines.erase(lines.begin());
  }
  std::string text;
  for (const auto& line : lines)
    text += "\n  " + line;
  return text;
}

struct started_node {
  child_process process;
  ready_line ports;
};

result<started_node> spawn_and_wait(const node_launch& launch) {
  std::error_code failed;
  std::filesystem::create_directories(launch.folder, failed);
  auto log = launch.folder / "node.log";
  // Nodes of a bench or a demo do not inherit the user's PEERCACHE_* settings, which are meant for
  // the user's own nodes.
  auto child = child_process::spawn({.arguments = arguments_of(launch),
                                     .environment = launch.environment,
                                     .without_environment = "PEERCACHE_",
                                     .stderr_path = log.string(),
                                     .network = launch.network});
  if (!child)
    return child.error();
  auto line = child->read_line(launch.start_timeout);
  if (!line)
    return {line.error().code,
            fmt::format("node '{}' did not start: {}. Its log ({}) ends with:{}", launch.name,
                        line.error().message, log.string(), last_lines(log))};
  auto ports = ready_line::parse(*line);
  if (!ports)
    return ports.error();
  return started_node{std::move(*child), *ports};
}

} // namespace

std::vector<std::string> arguments_of(const node_launch& launch) {
  std::vector<std::string> arguments = {launch.program,
                                        "--node-name",
                                        launch.name,
                                        "--cluster-name",
                                        launch.cluster,
                                        "--pool-size",
                                        std::to_string(launch.pool_bytes),
                                        "--net-control-port",
                                        std::to_string(launch.control_port),
                                        "--net-data-port",
                                        std::to_string(launch.data_port),
                                        "--net-http-port",
                                        std::to_string(launch.http_port)};
  arguments.push_back(launch.keep_pool ? "--pool-keep" : "--no-pool-keep");
  std::string seeds;
  for (const auto& seed : launch.seeds)
    seeds += (seeds.empty() ? "" : ",") + seed;
  if (!seeds.empty())
    arguments.insert(arguments.end(), {"--discovery-seeds", seeds});
  if (launch.host != "127.0.0.1")
    arguments.insert(arguments.end(), {"--net-bind", launch.host});
  if (!launch.tls.given())
    arguments.push_back("--insecure-cluster");
  if (launch.tls.given())
    arguments.insert(arguments.end(), {"--tls-cert", launch.tls.certificate, "--tls-key",
                                       launch.tls.key, "--tls-ca", launch.tls.authority});
  arguments.insert(arguments.end(), launch.flags.begin(), launch.flags.end());
  return arguments;
}

std::string ready_line::to_string() const {
  return fmt::format("ready control={} data={} http={} pid={}", control_port, data_port, http_port,
                     pid);
}

result<ready_line> ready_line::parse(std::string_view line) {
  ready_line ready;
  auto rest = line;
  if (!read_field(rest, "ready control=", ready.control_port) ||
      !read_field(rest, " data=", ready.data_port) ||
      !read_field(rest, " http=", ready.http_port) || !read_field(rest, " pid=", ready.pid) ||
      !rest.empty())
    return {errc::incompatible, fmt::format("'{}' is not what a node says when it serves", line)};
  return ready;
}

result<node_process> node_process::start(const node_launch& launch) {
  auto started = spawn_and_wait(launch);
  if (!started)
    return started.error();
  return node_process(launch, std::move(started->process), started->ports);
}

void node_process::ask_to_stop() {
  if (!std::exchange(asked_to_stop_, true))
    process_.signal(SIGTERM);
}

void stop_nodes(std::vector<node_process>& nodes, std::chrono::milliseconds at_most) {
  for (auto& node : nodes)
    node.ask_to_stop();
  for (auto& node : nodes)
    node.stop(at_most);
}

int node_process::stop(std::chrono::milliseconds at_most) {
  ask_to_stop();
  if (auto status = process_.wait(at_most))
    return *status;
  process_.kill_now();
  return 128 + SIGKILL;
}

result<void> node_process::restart(std::vector<std::string> seeds) {
  process_.kill_now();
  launch_.seeds = std::move(seeds);
  launch_.control_port = ports_.control_port;
  launch_.data_port = ports_.data_port;
  launch_.http_port = ports_.http_port;
  auto started = spawn_and_wait(launch_);
  if (!started)
    return started.error();
  process_ = std::move(started->process);
  ports_ = started->ports;
  asked_to_stop_ = false;
  return {};
}

std::string node_program(const std::string& given) {
  return given.empty() ? own_folder() + "/peercache-node" : given;
}

result<run_folder> run_folder::make(const std::string& prefix) {
  std::error_code failed;
  auto base = std::filesystem::temp_directory_path(failed);
  auto pattern = ((failed ? "/tmp" : base) / (prefix + "-XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return {errc::io_failed,
            "cannot make a folder like " + pattern + "; set TMPDIR to one that is ours to write"};
  return run_folder(pattern);
}

run_folder::~run_folder() {
  std::error_code ignored;
  if (!path_.empty() && !kept_)
    std::filesystem::remove_all(path_, ignored);
}

result<void> wait_for_members(const node_process& node, std::size_t count,
                              std::chrono::milliseconds at_most) {
  auto until = std::chrono::steady_clock::now() + at_most;
  auto admin = client::admin_client::connect(node.launch().host, node.ports().control_port,
                                             node.launch().cluster, at_most, node.launch().tls);
  if (!admin)
    return admin.error();
  std::string seen = "no answer";
  while (std::chrono::steady_clock::now() < until) {
    auto view = (*admin)->view();
    auto status = (*admin)->status();
    if (view && status && status->is(metric::ready) && view->members.size() == count)
      return {};
    if (view && status)
      seen =
          fmt::format("{} members, {}", view->members.size(),
                      status->is(metric::ready) ? "ready" : "unready: " + status->unready_reason);
    // Waits 20 ms before asking again: a node sends no message when its view changes.
    ::poll(nullptr, 0, 20);
  }
  return {errc::timed_out,
          fmt::format("node '{}' sees {} and not {} members; its log is in {}", node.launch().name,
                      seen, count, node.launch().folder.string())};
}

result<std::vector<node_process>> start_local_cluster(const local_cluster_options& options) {
  std::vector<node_process> nodes;
  for (std::uint32_t i = 0; i < options.count; ++i) {
    auto launch = options.prototype;
    launch.name = fmt::format("node-{}", i + 1);
    launch.folder = options.folder / launch.name;
    if (i > 0)
      launch.seeds = {nodes.front().address()};
    if (options.certificate_of) {
      auto files = options.certificate_of(launch.name);
      if (!files)
        return files.error();
      launch.tls = std::move(*files);
    }
    auto node = node_process::start(launch);
    if (!node)
      return node.error();
    nodes.push_back(std::move(*node));
  }
  for (const auto& node : nodes)
    if (auto joined = wait_for_members(node, options.count, options.prototype.start_timeout);
        !joined)
      return joined.error();
  return nodes;
}

} // namespace peercache::cli
