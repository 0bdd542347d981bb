#include "cli/cluster_health.hpp"
#include "cli/command.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

nlohmann::json shard_json(const link::directory_report& shard) {
  return {{"records", shard.records},      {"bytes", shard.bytes},
          {"lookups", shard.lookups},      {"publishes", shard.publishes},
          {"withdraws", shard.withdraws},  {"foreign", shard.foreign},
          {"replicas", shard.replicas},    {"handed_over", shard.handed_over},
          {"records_of", shard.records_of}};
}

exit_code list_shards(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  auto view = (*admin)->view();
  if (!view)
    return fail(globals, view.error());
  using side = text_table::align;
  text_table table({{"NODE"},
                    {"RECORDS", side::right},
                    {"MEMORY", side::right},
                    {"LOOKUPS", side::right},
                    {"PUBLISHES", side::right},
                    {"WITHDRAWS", side::right},
                    {"NOT ITS KEYS", side::right}});
  auto shards = nlohmann::json::array();
  bool all = true;
  for (const auto& [member, status, fault] : ask_all(*view, globals)) {
    all = all && status;
    if (!status) {
      table.add_row({member.name, std::string(to_string(fault.code))});
      shards.push_back({{"node", member.name}, {"fault", fault.message}});
      continue;
    }
    const auto& shard = status->directory;
    table.add_row({member.name, human_count(shard.records), human_bytes(shard.bytes),
                   human_count(shard.lookups), human_count(shard.publishes),
                   human_count(shard.withdraws), human_count(shard.foreign)});
    shards.push_back(shard_json(shard));
    shards.back()["node"] = member.name;
  }
  print(globals, {{"shards", shards}}, table.to_string(colour_allowed(stdout)));
  return all ? exit_code::ok : exit_code::degraded;
}

exit_code show_shard(const global_options& globals, const std::string& name) {
  auto admin = connect_node(globals, name);
  if (!admin)
    return fail(globals, admin.error());
  auto status = (*admin)->status();
  if (!status)
    return fail(globals, status.error());
  const auto& shard = status->directory;
  fact_list facts;
  facts.add("node", status->self.name);
  facts.add("records", human_count(shard.records));
  facts.add("memory", fmt::format("{}, {} bytes a record", human_bytes(shard.bytes),
                                  shard.records == 0 ? 0 : shard.bytes / shard.records));
  facts.add("owners of a key", human_count(shard.replicas));
  facts.add("lookups", fmt::format("{} keys, {} of them not its own", human_count(shard.lookups),
                                   human_count(shard.foreign)));
  facts.add("publishes", human_count(shard.publishes));
  facts.add("withdraws", human_count(shard.withdraws));
  facts.add("handed over", human_count(shard.handed_over) + " records");
  for (const auto& [node, records] : shard.records_of)
    facts.add("pages of " + node, human_count(records) + " records");
  auto data = shard_json(shard);
  data["node"] = status->self.name;
  print(globals, data, facts.to_string());
  return exit_code::ok;
}

} // namespace

void add_shard_command(command_line& line) {
  auto* command = line.app.add_subcommand("shard", "Look into the directory's shards");
  command->require_subcommand(1);
  auto* list = command->add_subcommand("ls", "The shards of all nodes (3: not all answer)");
  list->fallthrough();
  list->callback([&line] { line.action = list_shards; });
  auto* show = command->add_subcommand("show", "One node's shard, and whose pages it knows");
  show->fallthrough();
  auto name = std::make_shared<std::string>();
  show->add_option("NODE", *name, "Its name [default: the node that is asked]");
  show->callback([&line, name] {
    line.action = [name](const global_options& globals) { return show_shard(globals, *name); };
  });
}

} // namespace peercache::cli
