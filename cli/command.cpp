#include "cli/command.hpp"

#include "cli/configured.hpp"
#include "cli/examples.hpp"
#include "cli/members.hpp"
#include "cli/option_forms.hpp"
#include "cli/usage.hpp"
#include "common/log.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>

namespace peercache::cli {

using metrics::metric;

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

result<page_key> key_of_digest(const std::string& text) {
  page_key key;
  if (text.size() != 2 * key.bytes.size())
    return {
        errc::invalid_argument,
        fmt::format("'{}' is no digest: it takes 64 hex digits; leave --digest away to give a key",
                    text)};
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    int high = hex_digit(text[2 * i]);
    int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return {errc::invalid_argument,
              fmt::format("'{}' is no digest: only 0-9 and a-f are digits", text)};
    key.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return key;
}

constexpr std::array<std::string_view, 2> format_words{"table", "json"};

/// Whether a command line that could not be parsed asked for JSON, so that its error is told as
/// JSON.
bool asks_for_json(const CLI::App& app) {
  const auto& texts = app.get_option("--output")->results();
  return !texts.empty() && texts.back() == "json";
}

} // namespace

command_line::command_line() : app("Look into a PeerCache cluster, and try it out.", "peercache") {
  configured = take_configuration(globals);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", std::string("peercache ") + PEERCACHE_VERSION,
                       "Print the version and end");
  add_choice(app, "-o,--output", globals.format, format_words, "Form of the answer");
  using std::chrono::milliseconds;
  add_duration(app, "--timeout", globals.call_timeout, milliseconds(1), milliseconds(3'600'000),
               "How long one call may take");
  app.add_option("--node", globals.node,
                 fmt::format("Control port of the node to ask; of several, the first that answers "
                             "[default: {}]",
                             globals.node))
      ->type_name("HOST:PORT,...")
      ->join(',');
  app.add_option("--cluster", globals.cluster,
                 fmt::format("Name of its cluster [default: {}]", globals.cluster))
      ->type_name("NAME");
  const auto add_file = [&](const char* name, std::string& path, const char* meaning) {
    app.add_option(name, path, meaning)->type_name("FILE");
  };
  add_file("--tls-cert", globals.tls.certificate, "Certificate to show to nodes under TLS");
  add_file("--tls-key", globals.tls.key, "Key of the certificate");
  add_file("--tls-ca", globals.tls.authority, "Certificate of the CA that nodes are believed by");
}

namespace {

/// The examples of the command and of its subcommands, as lines of its help.
std::string examples_of(const std::string& path) {
  std::string text;
  for (const auto& each : examples())
    if (each.command == path || each.command.starts_with(path + " "))
      text += fmt::format("  peercache {}{}{}\n      {}\n", each.command,
                          each.rest.empty() ? "" : " ", each.rest, each.meaning);
  return text.empty() ? text : "Examples:\n" + text + "\n";
}

/// Lets the options of the whole command line stand behind each command too, and names them in the
/// command's help.
void finish_commands(CLI::App& above, const std::string& path) {
  for (auto* command : above.get_subcommands({})) {
    command->fallthrough();
    const auto own = path + command->get_name();
    command->footer(examples_of(own) +
                    "Options of every command, such as --node and -o json: peercache --help");
    finish_commands(*command, own + " ");
  }
}

/// The exit code of the program: a command whose output could not be written has failed.
exit_code after_output(exit_code code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written)
    return code;
  fmt::print(stderr, "peercache: not all output could be written\n");
  return code == exit_code::ok ? exit_code::failed : code;
}

} // namespace

void add_commands(command_line& line) {
  for (auto* add :
       {add_demo_command,   add_ping_command,    add_status_command,     add_nodes_command,
        add_top_command,    add_events_command,  add_sessions_command,   add_why_command,
        add_slow_command,   add_hotkeys_command, add_bigkeys_command,    add_log_level_command,
        add_ring_command,   add_shard_command,   add_key_command,        add_put_command,
        add_get_command,    add_exists_command,  add_rm_command,         add_clear_command,
        add_disk_command,   add_drain_command,   add_undrain_command,    add_forget_command,
        add_bundle_command, add_handoff_command, add_ca_command,         add_bench_command,
        add_doctor_command, add_config_command,  add_completion_command, add_cheat_command,
        add_help_command,   add_version_command})
    add(line);
}

void finish(command_line& line) {
  line.app.footer("Example: peercache status. `peercache cheat` has one for each command.\n"
                  "Defaults come from the configuration: client.node_host and client.node_port,\n"
                  "else the node's own net.advertise or net.bind and net.control_port;\n"
                  "client.timeout, cluster.name and tls.*; in PEERCACHE_* variables or the file\n"
                  "that PEERCACHE_CONFIG names.\n"
                  "Exit codes: 0 ok, 1 failed, 2 usage, 3 degraded, 4 unreachable.");
  finish_commands(line.app, "");
}

exit_code run(int argc, const char* const* argv) {
  command_line line;
  line.words.assign(argv + std::min(argc, 1), argv + argc);
  add_commands(line);
  finish(line);
  auto understood = parse_words(line.app, argc, argv);
  if (understood && !*understood)
    return after_output(exit_code::ok);
  if (asks_for_json(line.app))
    line.globals.format = output_format::json;
  if (!understood)
    return fail(line.globals, understood.error());
  if (!line.configured)
    return fail(line.globals, line.configured.error());
  // Only errors are logged: a command prints nothing but its answer.
  init_log("", "error", false);
  return after_output(line.action(line.globals));
}

void print(const global_options& globals, const nlohmann::json& data, const std::string& text) {
  // Names that peers chose need not be UTF-8; JSON has U+FFFD for such bytes.
  const auto all = globals.format == output_format::json
                       ? data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                       : text;
  // The stream keeps a write error, which `run` finds at the end.
  (void)std::fwrite(all.data(), 1, all.size(), stdout);
  (void)std::fflush(stdout);
}

exit_code fail(const global_options& globals, const error& err) {
  if (globals.format == output_format::json)
    print(globals, {{"error", {{"code", id_of(err.code)}, {"message", err.message}}}}, "");
  fmt::print(stderr, "peercache: {}\n",
             err.message.empty() ? std::string(to_string(err.code)) : err.message);
  return exit_code_of(err.code);
}

result<node_address> parse_node_address(const std::string& text) {
  node_address parsed{text, 31998};
  auto colon = text.rfind(':');
  bool bracketed = text.starts_with('[');
  auto bracket = text.find(']');
  if (bracketed && (bracket == std::string::npos || (colon > bracket && colon != bracket + 1)))
    return {errc::invalid_argument, fmt::format("'{}' is no address: write [v6]:port", text)};
  bool has_port = colon != std::string::npos && (!bracketed || colon > bracket);
  if (has_port) {
    auto port = text.substr(colon + 1);
    auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    if (failed != std::errc{} || end != port.data() + port.size() || parsed.port == 0)
      return {errc::invalid_argument,
              fmt::format("'{}' is no address: the port is a number from 1 to 65535", text)};
    parsed.host = text.substr(0, colon);
  }
  if (bracketed)
    parsed.host = text.substr(1, bracket - 1);
  if (parsed.host.empty())
    return {errc::invalid_argument, fmt::format("'{}' is no address: write HOST:PORT", text)};
  return parsed;
}

result<std::vector<node_address>> parse_node_addresses(const std::string& text) {
  std::vector<node_address> addresses;
  for (std::size_t from = 0; from <= text.size();) {
    const auto comma = std::min(text.find(',', from), text.size());
    auto address = parse_node_address(text.substr(from, comma - from));
    if (!address)
      return address.error();
    addresses.push_back(std::move(*address));
    from = comma + 1;
  }
  return addresses;
}

namespace {

/// Adds to an error what the client library cannot know: the names of this program's options, and
/// how to start a node.
error with_advice(const global_options& globals, const error& err) {
  if (err.code == errc::incompatible)
    return {err.code, err.message + " (--cluster NAME, --node HOST:PORT)"};
  if (exit_code_of(err.code) != exit_code::unreachable)
    return err;
  const auto start =
      globals.configuration.empty() ? "start a node on this machine with `peercache-node --dev`"
      : globals.node != globals.configured_node
          ? "start the node there"
          : fmt::format("start the node of this configuration (`peercache-node --config {}`)",
                        globals.configuration);
  return {err.code,
          fmt::format("{}; {}, or name another with --node HOST:PORT", err.message, start)};
}

/// Calls `connect` for each address of --node until one answers. Errors: that of the last address,
/// with the messages of the earlier ones before it.
template <class Connect>
auto connect_first(const global_options& globals, Connect connect)
    -> decltype(connect(node_address{})) {
  const auto addresses = parse_node_addresses(globals.node);
  if (!addresses)
    return addresses.error();
  std::string before;
  for (std::size_t i = 0;; ++i) {
    auto connected = connect((*addresses)[i]);
    if (connected)
      return connected;
    auto failed = connected.error();
    failed.message = before + failed.message;
    if (i + 1 == addresses->size() || exit_code_of(failed.code) != exit_code::unreachable)
      return with_advice(globals, failed);
    before = failed.message + "; ";
  }
}

} // namespace

result<std::unique_ptr<client::admin_client>> connect_admin(const global_options& globals) {
  return connect_first(globals, [&](const node_address& address) {
    return client::admin_client::connect(address.host, address.port, globals.cluster,
                                         globals.timeout(), globals.tls);
  });
}

result<std::unique_ptr<client::admin_client>> connect_node(const global_options& globals,
                                                           const std::string& name) {
  auto asked = connect_admin(globals);
  if (!asked || name.empty())
    return asked;
  auto view = (*asked)->view();
  if (!view)
    return view.error();
  std::vector<std::string> names;
  for (const auto& member : view->members) {
    if (member.name == name)
      return connect_member(member, globals);
    names.push_back(member.name);
  }
  if (const auto* lost = view->find_gone(name))
    return {errc::unreachable, fmt::format("'{}' is gone ({}); `peercache nodes` says since when",
                                           name, to_string(lost->why))};
  return {errc::not_found,
          fmt::format("no node is called '{}'; there are {}", name, fmt::join(names, ", "))};
}

result<std::unique_ptr<client::cache_client>> connect_client(const global_options& globals) {
  return connect_first(globals, [&](const node_address& address) {
    client::client_options options;
    options.node_host = address.host;
    options.node_port = address.port;
    options.cluster = globals.cluster;
    options.tls = globals.tls;
    options.timeout = globals.timeout();
    return client::cache_client::connect(options);
  });
}

nlohmann::json to_json(const discovery::member& member) {
  return {{"name", member.name},
          {"id", to_string(member.id)},
          {"incarnation", to_string(member.inc)},
          {"host", member.host},
          {"control_port", member.control_port},
          {"data_port", member.data_port},
          {"http_port", member.http_port}};
}

nlohmann::json to_json(const client::node_status& status) {
  // `data_plane` is the name of a plane and the reason for it: "tcp: why not more", "verbs: the
  // ports".
  const auto colon = status.data_plane.find(": ");
  const auto plane = status.data_plane.substr(0, colon);
  const auto reason =
      colon == std::string::npos ? std::string() : status.data_plane.substr(colon + 2);
  // Numbers that actors of the node did not tell are null, not 0.
  const auto count = [&status](metric id) {
    return status.samples.has(id) ? nlohmann::json(status.count(id)) : nlohmann::json();
  };
  const auto flag = [&status](metric id) {
    return status.samples.has(id) ? nlohmann::json(status.is(id)) : nlohmann::json();
  };
  return {{"node", to_json(status.self)},
          {"ready", status.is(metric::ready)},
          {"leader", flag(metric::is_leader)},
          {"unready_reason", status.unready_reason},
          {"uptime_ms", status.samples.milliseconds(metric::uptime_seconds)},
          {"view_term", count(metric::view_term)},
          {"view_version", count(metric::view_version)},
          {"pool_bytes_used", count(metric::pool_bytes_used)},
          {"pool_bytes_capacity", count(metric::pool_bytes_capacity)},
          {"pool_pages", count(metric::pool_pages)},
          {"puts", count(metric::pool_puts_total)},
          {"evictions", count(metric::evictions_total)},
          {"evicted_bytes", count(metric::evicted_bytes_total)},
          {"draining", flag(metric::draining)},
          {"members", count(metric::members)},
          {"links", count(metric::links)},
          {"directory_records", count(metric::directory_records)},
          {"sessions", count(metric::sessions)},
          {"data_plane", plane},
          {"data_plane_reason", reason},
          {"lookup_port", status.lookup_port},
          {"tls", status.is(metric::tls)},
          {"insecure", status.is(metric::insecure)},
          {"version", status.version},
          {"silent", status.silent}};
}

result<std::vector<page_key>> key_arguments::parse() const {
  std::vector<std::string_view> fields(space.begin(), space.end());
  key_space named(fields);
  std::vector<page_key> parsed;
  for (const auto& text : keys) {
    auto key = digests ? key_of_digest(text) : result<page_key>(named.key_of(text));
    if (!key)
      return key.error();
    parsed.push_back(*key);
  }
  return parsed;
}

result<keyed_client> connect_for(const global_options& globals, const key_arguments& arguments) {
  auto keys = arguments.parse();
  if (!keys)
    return keys.error();
  auto connected = connect_client(globals);
  if (!connected)
    return connected.error();
  return keyed_client{std::move(*keys), std::move(*connected)};
}

void add_space_options(CLI::App& command, key_arguments& arguments) {
  command
      .add_option("--namespace", arguments.space,
                  "Fields of the key space in their order, separated by commas (model,revision,…)")
      ->delimiter(',');
  command.add_flag("--digest", arguments.digests, "The keys are page digests of 64 hex digits");
}

} // namespace peercache::cli
