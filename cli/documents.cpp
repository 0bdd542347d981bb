#include "cli/documents.hpp"

#include "cli/command.hpp"
#include "cli/manual.hpp"
#include "cli/node_options.hpp"

#include <array>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace peercache::cli {

namespace {

void forget_own_variables() {
  std::vector<std::string> names;
  for (auto** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("PEERCACHE_"))
      names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const auto& name : names)
    ::unsetenv(name.c_str());
}

constexpr std::array<std::string_view, 3> about_cli{
    "peercache asks the nodes of a PeerCache cluster, moves single pages by hand, and changes what "
    "operators change. Options stand before or behind a command.",
    "Defaults come from the configuration: client.node_host, client.node_port, client.timeout, "
    "cluster.name and tls.*, in PEERCACHE_* variables or the file that PEERCACHE_CONFIG names.",
    "It ends with 0 when all is well, 1 when the answer is no (a miss, a refusal, wrong bytes), 2 "
    "when the command line makes no sense, 3 when the cluster is degraded, 4 when no node "
    "answers."};

constexpr std::array<std::string_view, 2> about_node{
    "peercache-node keeps the page pool of this host and its part of the directory. Each option "
    "can be set by its flag, by a PEERCACHE_* variable, or in a file; the first that is given in "
    "this order counts.",
    "SIGTERM and SIGINT drain the node and end it with 0. SIGHUP has it read its certificates "
    "again; SIGUSR1 and SIGUSR2 do nothing. It ends with 1 when it cannot start, and "
    "with 2 when its configuration makes no sense."};

} // namespace

std::vector<document> documents() {
  forget_own_variables();
  command_line line;
  add_commands(line);
  return {{"docs/cli.md", cli_document(line.app)}};
}

std::vector<document> manual_pages() {
  forget_own_variables();
  command_line line;
  add_commands(line);
  CLI::App node;
  node_options options(node);
  return {{"peercache.1", manual_of(line.app, about_cli, "peercache-node(1)")},
          {"peercache-node.1", manual_of(node, about_node, "peercache(1)")}};
}

} // namespace peercache::cli
