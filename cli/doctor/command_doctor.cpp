#include "cli/command.hpp"
#include "cli/doctor/machine.hpp"
#include "config/cli_options.hpp"
#include "config/load.hpp"
#include "config/process_sources.hpp"

#include <array>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {

namespace {

/// Options of the node that the checks depend on; `peercache doctor` takes each as a flag.
constexpr std::array<std::string_view, 30> judged_options = {
    "data_plane",       "dev",
    "node.name",        "cluster.name",
    "insecure_cluster", "net.bind",
    "net.advertise",    "net.control_port",
    "net.data_port",    "net.lookup_port",
    "net.http_port",    "metrics.bind",
    "discovery.seeds",  "tls.cert",
    "tls.key",          "tls.ca",
    "pool.size",        "pool.huge_pages",
    "pool.name_prefix", "rdma.devices",
    "rdma.port",        "rdma.gid_index",
    "disk.enabled",     "disk.path",
    "disk.size",        "disk.store",
    "node.group",       "net.socket_folder",
    "log.file",         "rdma.windows"};

struct doctor_arguments {
  std::string config_path;
  std::optional<config::cli_options> flags;
};

result<config::loaded_config> configuration(const doctor_arguments& arguments) {
  auto sources = config::sources_of_process(
      arguments.config_path.empty() ? std::nullopt : std::optional(arguments.config_path));
  if (!sources)
    return sources.error();
  sources->flags = arguments.flags->given();
  return config::load(*sources);
}

exit_code examine(const global_options& globals, const doctor_arguments& arguments) {
  auto loaded = configuration(arguments);
  if (!loaded)
    return fail(globals, loaded.error());
  for (const auto& warning : loaded->warnings)
    fmt::print(stderr, "peercache: warning: {}\n", warning);
  const auto groups = examine_machine(loaded->config);
  print(globals, to_json(groups), to_text(groups, colour_allowed(stdout)));
  return exit_code_of(groups);
}

} // namespace

void add_doctor_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "doctor", "What this machine lacks for a node to start and to be at its best, and how to "
                "mend it (3: something)");
  auto arguments = std::make_shared<doctor_arguments>();
  command->add_option("--config", arguments->config_path,
                      "The node's configuration file [PEERCACHE_CONFIG]");
  arguments->flags.emplace(*command, judged_options);
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return examine(globals, *arguments);
    };
  });
}

} // namespace peercache::cli
