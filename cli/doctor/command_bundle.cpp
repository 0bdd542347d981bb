#include "cli/build_facts.hpp"
#include "cli/cluster_history.hpp"
#include "cli/command.hpp"
#include "cli/doctor/machine.hpp"
#include "cli/redact.hpp"
#include "common/unix_time.hpp"
#include "config/load.hpp"
#include "config/process_sources.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

/// Version of the bundle's format; changed when readers of bundles have to be changed.
constexpr int bundle_edition = 1;
/// The default of cluster.name, which everybody knows.
constexpr const char* known_cluster = "peercache";

struct bundle_arguments {
  std::string path;
  std::string config_path;
};

/// Every option in force here, as a node on this machine would take it; or the error that kept the
/// configuration from being read.
nlohmann::json configuration_json(const result<config::loaded_config>& loaded) {
  if (!loaded)
    return {{"error", loaded.error().message}};
  auto options = nlohmann::json::array();
  for (const auto& each : loaded->values)
    options.push_back({{"option", each.opt->name},
                       {"value", config::value_text(*each.opt, each.value)},
                       {"origin", to_string(each.from)}});
  return {{"options", options}};
}

/// All numbers of a node by the names that they have in a scrape; of a histogram its count.
nlohmann::json numbers_json(const client::node_status& status) {
  auto all = nlohmann::json::array();
  const auto add = [&](const metrics::series& which, double value) {
    auto words = nlohmann::json::array();
    for (const auto& word : which.words)
      if (!word.empty())
        words.push_back(word);
    all.push_back({{"name", metrics::info_of(which.id).name}, {"labels", words}, {"value", value}});
  };
  for (const auto& [which, value] : status.samples.values())
    add(which, value);
  for (const auto& [which, latency] : status.samples.latencies())
    add(which, static_cast<double>(latency.count));
  return all;
}

nlohmann::json nodes_json(const std::vector<node_answer>& answers) {
  auto all = nlohmann::json::array();
  for (const auto& answer : answers) {
    nlohmann::json one{{"name", answer.member.name}, {"state", state_of(answer)}};
    if (answer.status) {
      one["status"] = to_json(*answer.status);
      one["numbers"] = numbers_json(*answer.status);
    } else {
      one["error"] = answer.fault.message;
    }
    all.push_back(std::move(one));
  }
  return all;
}

/// The cluster's status, nodes and events as JSON. Sets `whole` to whether all nodes have answered.
nlohmann::json cluster_of(const global_options& globals, bool& whole) {
  whole = false;
  auto admin = connect_admin(globals);
  if (!admin)
    return {{"error", admin.error().message}};
  const auto status = (*admin)->status();
  const auto view = (*admin)->view();
  if (!status || !view)
    return {{"error", (status ? view.error() : status.error()).message}};
  const auto answers = ask_all(*view, globals);
  auto events = nlohmann::json::array();
  for (const auto& event : events_of(ask_memories(*view, globals), status->self.name))
    events.push_back(to_json(event));
  whole = std::all_of(answers.begin(), answers.end(),
                      [](const node_answer& answer) { return answer.status.has_value(); });
  return {{"status", status_json(*status, *view, answers, faults_of(*status, *view, answers))},
          {"nodes", nodes_json(answers)},
          {"events", events}};
}

nlohmann::json machine_json() {
  utsname names{};
  ::uname(&names);
  return {{"system", names.sysname}, {"release", names.release}, {"machine", names.machine}};
}

/// Names of clusters that the bundle must not show: where there is no TLS, a cluster lets in
/// whoever knows its name. These are the name of this cluster, and those that the bundle's messages
/// have.
std::vector<std::string> secrets_of(const global_options& globals,
                                    const result<config::loaded_config>& loaded,
                                    const nlohmann::json& bundle) {
  auto secrets = cluster_names_in(bundle);
  secrets.push_back(globals.cluster);
  if (loaded)
    secrets.push_back(loaded->config.cluster.name);
  std::erase(secrets, known_cluster);
  return secrets;
}

/// Writes a file that only its user can read, and that is not there yet; removes it when that
/// fails.
result<void> write_new_file(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  auto* file = fd < 0 ? nullptr : ::fdopen(fd, "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr)
    written = std::fclose(file) == 0 && written;
  if (written)
    return {};
  const error failed{errc::io_failed,
                     fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
  if (fd >= 0)
    ::unlink(path.c_str());
  return failed;
}

exit_code make_bundle(const global_options& globals, const bundle_arguments& arguments) {
  auto sources = config::sources_of_process(
      arguments.config_path.empty() ? std::nullopt : std::optional(arguments.config_path));
  const auto loaded =
      sources ? config::load(*sources) : result<config::loaded_config>(sources.error());
  // The machine is examined before the cluster is asked: the probes are forked, and clients of the
  // cluster start threads.
  nlohmann::json checks;
  if (loaded)
    checks = to_json(examine_machine(loaded->config));
  bool whole = false;
  const auto facts = facts_of_build();
  nlohmann::json bundle{{"format", bundle_edition},
                        {"made_unix_ms", unix_ms()},
                        {"version", PEERCACHE_VERSION},
                        {"commit", facts.commit},
                        {"machine", machine_json()},
                        {"configuration", configuration_json(loaded)},
                        {"doctor", checks},
                        {"cluster", cluster_of(globals, whole)}};
  const auto text = redact(bundle, secrets_of(globals, loaded, bundle))
                        .dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
                    "\n";
  if (arguments.path == "-") {
    fmt::print("{}", text);
    return whole ? exit_code::ok : exit_code::degraded;
  }
  const auto path = arguments.path.empty()
                        ? fmt::format("peercache-bundle-{}.json", unix_ms() / 1000)
                        : arguments.path;
  if (auto written = write_new_file(path, text); !written)
    return fail(globals, written.error());
  print(globals, {{"path", path}, {"whole", whole}, {"bytes", text.size()}},
        fmt::format("{}: written, {}{}\n", path, human_bytes(text.size()),
                    whole ? "" : "; not all nodes answered"));
  return whole ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_bundle_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "bundle",
      "One file for a report: status, numbers and events of all nodes, doctor, "
      "configuration; without keys, bytes or cluster names (3: some nodes do not answer)");
  auto arguments = std::make_shared<bundle_arguments>();
  command->add_option("FILE", arguments->path,
                      "The file, which is made; - is stdout [default: peercache-bundle-TIME.json]");
  command->add_option("--config", arguments->config_path,
                      "The node's configuration file [PEERCACHE_CONFIG]");
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return make_bundle(globals, *arguments);
    };
  });
}

} // namespace peercache::cli
