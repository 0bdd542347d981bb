#include "cli/command.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

namespace peercache::cli {

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

/// As the configuration's client.node_host and client.node_port name it in the environment.
std::string default_node() {
  const char* host = std::getenv("PEERCACHE_CLIENT_NODE_HOST");
  const char* port = std::getenv("PEERCACHE_CLIENT_NODE_PORT");
  return fmt::format("{}:{}", host != nullptr ? host : "127.0.0.1",
                     port != nullptr ? port : "31998");
}

const std::map<std::string, output_format> formats = {{"table", output_format::table},
                                                      {"json", output_format::json}};
const std::map<std::string, std::uint32_t> time_units = {{"ms", 1}, {"s", 1000}, {"min", 60'000}};

} // namespace

command_line::command_line() : app("Look into a PeerCache cluster, and try it out.", "peercache") {
  globals.node = default_node();
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("-o,--output", globals.format, "Form of the answer: table or json")
      ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description("table|json"));
  app.add_option("--timeout", globals.timeout_ms,
                 "How long one call may take, for example 500ms or 2s")
      ->transform(CLI::AsNumberWithUnit(time_units, CLI::AsNumberWithUnit::UNIT_OPTIONAL, "TIME"))
      ->check(CLI::Range(1u, 3'600'000u).description(""));
  app.add_option("--node", globals.node, "The node to ask, HOST:PORT")->capture_default_str();
  app.add_option("--cluster", globals.cluster, "Name of the cluster, as the nodes are configured")
      ->envname("PEERCACHE_CLUSTER_NAME")
      ->capture_default_str();
}

exit_code run(int argc, const char* const* argv) {
  command_line line;
  for (auto* add : {add_demo_command, add_ping_command, add_status_command, add_nodes_command,
                    add_key_command, add_put_command, add_get_command, add_exists_command,
                    add_rm_command, add_bench_command, add_doctor_command, add_version_command})
    add(line);
  for (auto* command : line.app.get_subcommands({}))
    command->fallthrough();
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return line.app.exit(wrong) == 0 ? exit_code::ok : exit_code::usage;
  }
  return line.action(line.globals);
}

void print(const global_options& globals, const nlohmann::json& data, const std::string& text) {
  fmt::print("{}", globals.format == output_format::json ? data.dump() + "\n" : text);
  std::fflush(stdout);
}

exit_code fail(const global_options& globals, const error& err) {
  if (globals.format == output_format::json)
    print(globals, {{"error", {{"code", to_string(err.code)}, {"message", err.message}}}}, "");
  fmt::print(stderr, "peercache: {}\n", to_string(err));
  return exit_code_of(err.code);
}

result<endpoint> parse_endpoint(const std::string& text) {
  endpoint parsed{text, 31998};
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

namespace {

/// Adds what the library cannot know: how a node is started here.
error with_advice(const error& err, const global_options& globals) {
  if (exit_code_of(err.code) != exit_code::unreachable)
    return err;
  return {err.code, fmt::format("{} (cluster '{}'; a node on this machine: peercache-node --dev)",
                                err.message, globals.cluster)};
}

} // namespace

result<std::unique_ptr<client::admin_client>> connect_admin(const global_options& globals) {
  auto address = parse_endpoint(globals.node);
  if (!address)
    return address.error();
  auto admin = client::admin_client::connect(address->host, address->port, globals.cluster,
                                             globals.timeout());
  if (!admin)
    return with_advice(admin.error(), globals);
  return admin;
}

result<std::unique_ptr<client::cache_client>> connect_client(const global_options& globals) {
  auto address = parse_endpoint(globals.node);
  if (!address)
    return address.error();
  client::client_options options;
  options.node_host = address->host;
  options.node_port = address->port;
  options.cluster = globals.cluster;
  options.timeout = globals.timeout();
  auto connected = client::cache_client::connect(options);
  if (!connected)
    return with_advice(connected.error(), globals);
  return connected;
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
  return {{"node", to_json(status.self)},
          {"ready", status.ready},
          {"leader", status.leader},
          {"unready_reason", status.unready_reason},
          {"uptime_ms", status.uptime_ms},
          {"view_term", status.view_term},
          {"view_version", status.view_version},
          {"pool_bytes_used", status.pool_bytes_used},
          {"pool_bytes_capacity", status.pool_bytes_capacity},
          {"pool_pages", status.pool_pages},
          {"puts", status.puts},
          {"evictions", status.evictions},
          {"evicted_bytes", status.evicted_bytes},
          {"directory_records", status.directory_records},
          {"sessions", status.sessions},
          {"data_plane", status.data_plane},
          {"version", status.version}};
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

void add_space_options(CLI::App& command, key_arguments& arguments) {
  command
      .add_option("--namespace", arguments.space,
                  "Fields of the key space in their order, separated by commas (model,revision,…)")
      ->delimiter(',');
  command.add_flag("--digest", arguments.digests, "The keys are page digests of 64 hex digits");
}

} // namespace peercache::cli
