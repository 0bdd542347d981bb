#include "chaos_cluster.hpp"

#include "net/host_socket.hpp"
#include "net/tls_authority.hpp"

#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace peercache::chaos {

namespace {

/// Returns the environment that moves a node's wall clock and not its other clocks, as an operator
/// who sets the time does. libfaketime reads `file` again each second.
std::vector<std::pair<std::string, std::string>> clock_environment(const chaos_plan& plan,
                                                                   const std::string& file) {
  return {{"LD_PRELOAD", plan.clock_library},
          {"FAKETIME_TIMESTAMP_FILE", file},
          {"FAKETIME_CACHE_DURATION", "1"},
          {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
          {"NO_FAKE_STAT", "1"}};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : ",") + word;
  return text;
}

/// Returns a folder for the nodes' Unix sockets, in the folder of the run: networks of several runs
/// have the same addresses, and all runs share one file system.
std::string sockets_in(const std::filesystem::path& folder) {
  return (folder / "sockets").string();
}

cli::node_launch launch_of(const chaos_plan& plan, const std::filesystem::path& folder,
                           std::uint32_t host) {
  cli::node_launch launch;
  launch.program = plan.load.node_program;
  launch.name = fmt::format("node-{}", host + 1);
  launch.cluster = fmt::format("chaos-{}", ::getpid());
  launch.pool_bytes = pool_bytes_per_node(plan.load);
  launch.folder = folder / launch.name;
  launch.keep_pool = plan.keep_pools;
  launch.host = real::net_lab::address(host);
  launch.control_port = chaos_cluster::control_port;
  launch.data_port = 31999;
  launch.http_port = 31997;
  for (std::uint32_t other = 0; other < plan.hosts(); ++other)
    launch.seeds.push_back(
        fmt::format("{}:{}", real::net_lab::address(other), chaos_cluster::control_port));
  launch.flags = {"--pool-name-prefix",  fmt::format("peercache-chaos-{}", ::getpid()),
                  "--drain-timeout",     "3s",
                  "--net-socket-folder", sockets_in(folder)};
  if (!plan.repairs)
    launch.flags.insert(launch.flags.end(), {"--directory-repair-rate", "0"});
  if (plan.disk_bytes > 0)
    launch.flags.insert(launch.flags.end(),
                        {"--disk-path", (launch.folder / "disk").string(), "--disk-size",
                         std::to_string(plan.disk_bytes), "--disk-store", plan.disk_store,
                         "--disk-bucket-size", "1MiB"});
  launch.environment = clock_environment(plan, (launch.folder / "clock").string());
  launch.environment.insert(launch.environment.end(), plan.load.faults.begin(),
                            plan.load.faults.end());
  if (!plan.load.guards_off.empty())
    launch.environment.emplace_back("PEERCACHE_TEST_GUARDS_OFF", joined(plan.load.guards_off));
  return launch;
}

} // namespace

result<chaos_cluster> chaos_cluster::make(const chaos_plan& plan, const cli::run_folder& folder) {
  auto net = real::net_lab::make(plan.hosts());
  if (!net)
    return net.error();
  // Tells the clients, which live in this process.
  ::setenv(net::host_socket_variable, sockets_in(folder.path()).c_str(), 1);
  chaos_cluster cluster(std::move(*net));
  cluster.nodes_priority_ = plan.nodes_priority;
  for (std::uint32_t host = 0; host < plan.hosts(); ++host) {
    auto& made = cluster.nodes_.emplace_back();
    made.launch = launch_of(plan, folder.path(), host);
    made.launch.network = cluster.net_.network(host);
    std::error_code failed;
    std::filesystem::create_directories(made.launch.folder, failed);
    if (auto set = cluster.jump_clock(host, 0); !set)
      return set.error();
  }
  if (plan.tls)
    if (auto issued = cluster.make_certificates(folder.path() / "tls"); !issued)
      return issued.error();
  return cluster;
}

result<void> chaos_cluster::make_certificates(const std::filesystem::path& folder) {
  auto authority = net::tls_authority::make(folder, cluster_name());
  if (!authority)
    return authority.error();
  const auto issue = [&](net::tls_role role, const std::string& name, tls_paths& to) {
    auto made = authority->issue(role, name, folder);
    if (made)
      to = {made->certificate, made->key, authority->certificate()};
    return made ? result<void>() : made.error();
  };
  for (auto& each : nodes_)
    if (auto issued = issue(net::tls_role::node, each.launch.name, each.launch.tls); !issued)
      return issued;
  return issue(net::tls_role::client, "chaos", client_tls_);
}

chaos_cluster::~chaos_cluster() {
  for (auto& node : nodes_)
    bury(node);
  std::error_code failed;
  for (std::filesystem::directory_iterator it("/dev/shm", failed), end;
       !nodes_.empty() && !failed && it != end; it.increment(failed))
    if (it->path().filename().string().starts_with(pool_prefix() + "-")) {
      std::error_code ignored;
      std::filesystem::remove(it->path(), ignored);
    }
}

/// Kills the process if it still runs, and removes the two objects in shared memory that a killed
/// process with libfaketime leaves.
void chaos_cluster::bury(node& dead) {
  if (!dead.process)
    return;
  auto pid = dead.process->pid();
  dead.process.reset(); // The destructor kills the process with SIGKILL.
  std::error_code ignored;
  std::filesystem::remove(fmt::format("/dev/shm/faketime_shm_{}", pid), ignored);
  std::filesystem::remove(fmt::format("/dev/shm/sem.faketime_sem_{}", pid), ignored);
}

std::string chaos_cluster::pool_prefix() const {
  return nodes_.front().launch.flags[1];
}

std::vector<std::uint32_t> chaos_cluster::all_running() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t host = 0; host < hosts(); ++host)
    if (running(host))
      all.push_back(host);
  return all;
}

result<void> chaos_cluster::start(std::uint32_t host) {
  auto& node = nodes_[host];
  auto child = cli::child_process::spawn({.arguments = arguments_of(node.launch),
                                          .environment = node.launch.environment,
                                          .without_environment = "PEERCACHE_",
                                          .stderr_path = (node.launch.folder / "node.log").string(),
                                          .network = node.launch.network});
  if (!child)
    return child.error();
  node.process.emplace(std::move(*child));
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(node.process->pid()), nodes_priority_);
  node.frozen = false;
  node.draining = false;
  return {};
}

void chaos_cluster::kill(std::uint32_t host) {
  bury(nodes_[host]);
  nodes_[host].frozen = false;
}

void chaos_cluster::freeze(std::uint32_t host) {
  nodes_[host].process->signal(SIGSTOP);
  nodes_[host].frozen = true;
}

void chaos_cluster::thaw(std::uint32_t host) {
  nodes_[host].process->signal(SIGCONT);
  nodes_[host].frozen = false;
}

void chaos_cluster::drain(std::uint32_t host) {
  nodes_[host].process->signal(SIGTERM);
  nodes_[host].draining = true;
}

bool chaos_cluster::drained(std::uint32_t host) {
  auto& node = nodes_[host];
  if (node.process && !node.process->wait(std::chrono::milliseconds(0)))
    return false;
  bury(node);
  return true;
}

void chaos_cluster::wipe_disk(std::uint32_t host) {
  std::error_code ignored;
  std::filesystem::remove_all(disk_of(host), ignored);
}

result<void> chaos_cluster::jump_clock(std::uint32_t host, int seconds) {
  // The new file replaces the old one by a rename, so that libfaketime never reads half of it.
  auto path = clock_of(host);
  auto next = path.string() + ".next";
  std::ofstream(next) << fmt::format("{:+}\n", seconds);
  std::error_code failed;
  std::filesystem::rename(next, path, failed);
  if (failed)
    return {errc::io_failed, "cannot write " + path.string() + ": " + failed.message()};
  return {};
}

std::vector<std::string> chaos_cluster::died() {
  std::vector<std::string> dead;
  for (auto& node : nodes_) {
    if (!node.process)
      continue;
    auto status = node.process->wait(std::chrono::milliseconds(0));
    if (status && !(node.draining && *status == 0)) {
      dead.push_back(fmt::format("{} ended by itself with status {}; its log is in {}",
                                 node.launch.name, *status, node.launch.folder.string()));
      bury(node);
    }
  }
  return dead;
}

void chaos_cluster::stop() {
  for (auto host : all_running()) {
    thaw(host);
    drain(host);
  }
  for (auto host : all_running()) {
    nodes_[host].process->wait(std::chrono::seconds(5));
    bury(nodes_[host]);
  }
}

} // namespace peercache::chaos
