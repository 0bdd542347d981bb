#pragma once

#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "client/admin_client.hpp"
#include "client/cache_client.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"
#include "common/tls_paths.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

/// Options that every command understands, before or after its own name. The defaults come from the
/// configuration: client.node_host, client.node_port (where these are not given net.advertise,
/// net.control_port), client.timeout, cluster.name, tls.*.
struct global_options {
  output_format format = output_format::table;
  std::chrono::milliseconds call_timeout{2000};
  /// Control ports of nodes, "host:port,host:port": the first one that answers is asked.
  std::string node = "127.0.0.1:31998";
  std::string configured_node; ///< The value of `node` where --node is not given.
  std::string configuration;   ///< Path of the configuration file; empty: there is none.
  std::string cluster = "peercache";
  tls_paths tls;

  std::chrono::milliseconds timeout() const { return call_timeout; }
};

/// The command line of `peercache`. Each command adds itself; parsing sets `action` to that of the
/// chosen command, and `run` calls it. Threads: one. Not movable: CLI11 holds references into this
/// object.
struct command_line {
  /// Reads the environment and the file that PEERCACHE_CONFIG names, for the defaults of the
  /// options.
  command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  CLI::App app;
  global_options globals;
  std::vector<std::string> words; ///< The words of the command line behind the program's name.
  /// The error of reading the defaults from environment or file: commands fail with it, but help
  /// works.
  result<void> configured;
  std::function<exit_code(const global_options&)> action;
};

void add_ping_command(command_line& line);
void add_status_command(command_line& line);
void add_nodes_command(command_line& line);
void add_top_command(command_line& line);
void add_events_command(command_line& line);
void add_ring_command(command_line& line);
void add_shard_command(command_line& line);
void add_handoff_command(command_line& line);
void add_key_command(command_line& line);
void add_put_command(command_line& line);
void add_get_command(command_line& line);
void add_exists_command(command_line& line);
void add_rm_command(command_line& line);
void add_version_command(command_line& line);
void add_demo_command(command_line& line);
void add_bench_command(command_line& line);
void add_doctor_command(command_line& line);
void add_bundle_command(command_line& line);
void add_sessions_command(command_line& line);
void add_why_command(command_line& line);
void add_slow_command(command_line& line);
void add_hotkeys_command(command_line& line);
void add_bigkeys_command(command_line& line);
void add_log_level_command(command_line& line);
void add_disk_command(command_line& line);
void add_clear_command(command_line& line);
void add_ca_command(command_line& line);
void add_drain_command(command_line& line);
void add_undrain_command(command_line& line);
void add_forget_command(command_line& line);
void add_config_command(command_line& line);
void add_help_command(command_line& line);
void add_cheat_command(command_line& line);
void add_completion_command(command_line& line);

/// Adds all commands, in the order of the help.
void add_commands(command_line& line);

/// Ends the help of each command with its examples and a hint at the options of all commands.
/// @pre all commands were added
void finish(command_line& line);

/// Parses the command line and runs its command: the whole of `main`. Output that could not be
/// written makes an `ok` a `failed`.
exit_code run(int argc, const char* const* argv);

/// Prints a command's result in the chosen format: `data` as JSON with raw numbers, or `text` for
/// people.
void print(const global_options& globals, const nlohmann::json& data, const std::string& text);

/// Tells an error on stderr (and as {"error": …} on stdout with -o json); returns the exit code for
/// it.
exit_code fail(const global_options& globals, const error& err);

struct node_address {
  std::string host;
  std::uint16_t port = 0;
};
/// Reads "host:port", "[v6]:port", or only a host, which gets the default port.
result<node_address> parse_node_address(const std::string& text);
/// Reads a list of one or more addresses, separated by commas. Errors: names the first part that is
/// not an address.
result<std::vector<node_address>> parse_node_addresses(const std::string& text);

result<std::unique_ptr<client::admin_client>> connect_admin(const global_options& globals);
/// Connects to the node called `name`, found in the view of the node at `--node`; to the node at
/// `--node` itself when `name` is empty.
result<std::unique_ptr<client::admin_client>> connect_node(const global_options& globals,
                                                           const std::string& name);
result<std::unique_ptr<client::cache_client>> connect_client(const global_options& globals);

nlohmann::json to_json(const discovery::member& member);
nlohmann::json to_json(const client::node_status& status);

/// The keys of put, get, exists, rm and key: the caller's strings in a namespace, or digests.
struct key_arguments {
  std::vector<std::string> keys;
  std::vector<std::string> space; ///< Values of the key space's fields, in order.
  bool digests = false;           ///< Whether the keys are given as 64 hex digits each.

  result<std::vector<page_key>> parse() const;
};
void add_space_options(CLI::App& command, key_arguments& arguments);

/// The keys that a command was given, and a client to ask about them.
struct keyed_client {
  std::vector<page_key> keys;
  std::unique_ptr<client::cache_client> cache;
};
result<keyed_client> connect_for(const global_options& globals, const key_arguments& arguments);

} // namespace peercache::cli
