#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/members.hpp"
#include "metrics/metric_table.hpp"

#include <fmt/format.h>

namespace peercache::cli {

using metrics::metric;

namespace {

nlohmann::json shard_json(const client::node_status& status) {
  return {{"records", status.count(metric::directory_records)},
          {"bytes", status.count(metric::directory_bytes)},
          {"lookups", status.count(metric::directory_lookups_total)},
          {"publishes", status.count(metric::directory_publishes_total)},
          {"withdraws", status.count(metric::directory_withdraws_total)},
          {"foreign", status.count(metric::directory_foreign_lookups_total)},
          {"replicas", status.count(metric::directory_owners)},
          {"handed_over", status.count(metric::directory_handed_over_total)},
          {"records_of", status.directory.records_of}};
}

exit_code list_shards(const global_options& globals) {
  auto view = ask_view(globals);
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
  for (const auto& answer : ask_all(*view, globals)) {
    const auto& status = answer.status;
    all = all && status;
    if (!status) {
      table.add_row({answer.member.name, std::string(to_string(answer.fault.code))});
      shards.push_back({{"node", answer.member.name}, {"fault", answer.fault.message}});
      continue;
    }
    if (status->lacks(link::node_parts::directory)) {
      all = false;
      const auto fault = silent_part(*status, link::node_parts::directory);
      table.add_row({answer.member.name, "does not answer its node"});
      shards.push_back({{"node", answer.member.name}, {"fault", fault.message}});
      continue;
    }
    const auto count = [&node = *status](metric id) { return human_count(node.count(id)); };
    table.add_row({answer.member.name, count(metric::directory_records),
                   human_bytes(status->count(metric::directory_bytes)),
                   count(metric::directory_lookups_total), count(metric::directory_publishes_total),
                   count(metric::directory_withdraws_total),
                   count(metric::directory_foreign_lookups_total)});
    shards.push_back(shard_json(*status));
    shards.back()["node"] = answer.member.name;
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
  if (status->lacks(link::node_parts::directory))
    return fail_for_silent(globals, *status, link::node_parts::directory);
  const auto count = [&node = *status](metric id) { return human_count(node.count(id)); };
  fact_list facts;
  facts.add("node", status->self.name);
  facts.add("records", count(metric::directory_records));
  facts.add("memory", fmt::format("{}, {} bytes a record",
                                  human_bytes(status->count(metric::directory_bytes)),
                                  status->count(metric::directory_record_bytes)));
  facts.add("owners of a key", count(metric::directory_owners));
  facts.add("lookups",
            fmt::format("{} keys, {} of them not its own", count(metric::directory_lookups_total),
                        count(metric::directory_foreign_lookups_total)));
  facts.add("publishes", count(metric::directory_publishes_total));
  facts.add("withdraws", count(metric::directory_withdraws_total));
  facts.add("handed over", count(metric::directory_handed_over_total) + " records");
  for (const auto& [node, records] : status->directory.records_of)
    facts.add("pages of " + node, human_count(records) + " records");
  auto data = shard_json(*status);
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
  auto* show = command->add_subcommand(
      "show", "One node's shard, and whose pages it knows (3: it does not answer)");
  show->fallthrough();
  auto name = std::make_shared<std::string>();
  show->add_option("NODE", *name, "Its name [default: the node that is asked]");
  show->callback([&line, name] {
    line.action = [name](const global_options& globals) { return show_shard(globals, *name); };
  });
}

} // namespace peercache::cli
