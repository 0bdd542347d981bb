#pragma once

#include "cli/process.hpp"
#include "common/result.hpp"
#include "common/tls_paths.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::cli {

/// How to start one peercache-node; on loopback unless `host` says otherwise.
struct node_launch {
  std::string program; ///< Path of peercache-node.
  std::string name;    ///< The node's name.
  std::string cluster = "peercache-local";
  std::uint64_t pool_bytes = 256u << 20;
  /// Nodes to join through, as "host:port"; empty starts a cluster of one.
  std::vector<std::string> seeds;
  std::filesystem::path folder;   ///< Folder of the node's log; made when it is not there.
  std::uint16_t control_port = 0; ///< Ports to listen on; 0: any free port.
  std::uint16_t data_port = 0;
  std::uint16_t http_port = 0;
  bool keep_pool = false;         ///< The value of pool.keep: whether the node's pages outlive it.
  std::vector<std::string> flags; ///< Further flags of peercache-node.
  std::vector<std::pair<std::string, std::string>> environment;
  std::chrono::milliseconds start_timeout{30'000};
  std::string host = "127.0.0.1"; ///< Address that the node listens on.
  tls_paths tls;                  ///< The node's certificate, key and CA; empty: no TLS.
  /// File descriptor of the network namespace that the node lives in; -1: this process's own.
  int network = -1;
};

/// The command line, program first, that starts a node as `launch` says.
std::vector<std::string> arguments_of(const node_launch& launch);

/// The line that a node prints on stdout once it serves: "ready control=PORT data=PORT http=PORT
/// pid=PID".
struct ready_line {
  std::uint16_t control_port = 0;
  std::uint16_t data_port = 0;
  std::uint16_t http_port = 0;
  pid_t pid = 0;

  std::string to_string() const;
  static result<ready_line> parse(std::string_view line);
};

/// A process peercache-node that this process started. Threads, ownership: as `child_process`.
class node_process {
public:
  /// Starts a node and waits until it serves. Errors: the message has the last lines of the node's
  /// log.
  static result<node_process> start(const node_launch& launch);

  const ready_line& ports() const { return ports_; }
  const node_launch& launch() const { return launch_; }
  std::string address() const { return launch_.host + ":" + std::to_string(ports_.control_port); }
  child_process& process() { return process_; }

  /// Sends SIGTERM; repeated calls send nothing, since a second signal tells a node not to drain.
  void ask_to_stop();

  /// Asks the node to stop, and kills it if it has not ended in time. Returns its exit status.
  int stop(std::chrono::milliseconds at_most);

  /// Starts the node again after it ended, on the ports that it had, with the given seeds.
  result<void> restart(std::vector<std::string> seeds);

private:
  node_process(node_launch launch, child_process process, ready_line ports)
      : launch_(std::move(launch)), process_(std::move(process)), ports_(ports) {}

  node_launch launch_;
  child_process process_;
  ready_line ports_;
  bool asked_to_stop_ = false;
};

/// Stops all nodes at the same time, and kills those that have not ended in time.
void stop_nodes(std::vector<node_process>& nodes, std::chrono::milliseconds at_most);

/// Path of the program peercache-node: `given`, or the one beside this program when `given` is
/// empty.
std::string node_program(const std::string& given);

/// A folder for the logs of one run, made below the temporary folder. Removed on destruction unless
/// it is kept.
class run_folder {
public:
  static result<run_folder> make(const std::string& prefix);
  ~run_folder();
  run_folder(run_folder&& other) noexcept : path_(std::move(other.path_)), kept_(other.kept_) {
    other.path_.clear();
  }
  run_folder& operator=(run_folder&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

private:
  explicit run_folder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  bool kept_ = false;
};

/// Gives the certificate of the node with this name.
using node_certificates = std::function<result<tls_paths>(const std::string& name)>;

/// Options of a cluster of `count` nodes: node-1 is the head, the others join through it.
/// `start_local_cluster` returns when all nodes are in each other's views.
struct local_cluster_options {
  node_launch prototype; ///< How to start each node; name, seeds and folder are set per node.
  std::uint32_t count = 3;
  std::filesystem::path folder;
  node_certificates certificate_of; ///< Null: the nodes have no TLS.
};
result<std::vector<node_process>> start_local_cluster(const local_cluster_options& options);

/// Waits until `node` is ready and its view has `count` members.
result<void> wait_for_members(const node_process& node, std::size_t count,
                              std::chrono::milliseconds at_most);

} // namespace peercache::cli
