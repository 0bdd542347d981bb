// The commands `peercache hotkeys` and `peercache bigkeys`.

#include "cli/census.hpp"
#include "cli/command.hpp"
#include "cli/key_spaces.hpp"
#include "cli/members.hpp"

#include <fmt/format.h>
#include <optional>

namespace peercache::cli {
namespace {

/// Answers of the nodes: the census of their pools, and the names of spaces that their clients
/// told.
struct told_pools {
  census_sum sum;
  space_names names;
  std::vector<std::string> silent; ///< Names of the nodes that did not answer.
};

struct census_arguments {
  std::string name;
  std::size_t most = 20;
};

result<told_pools> ask_pools(const global_options& globals, const std::string& name) {
  const auto members = members_named(globals, name);
  if (!members)
    return members.error();
  struct answer {
    std::optional<link::page_census> census;
    std::optional<link::calls_report> calls;
  };
  std::vector<answer> answers(members->size());
  ask_members(*members, globals, [&](std::size_t i, client::admin_client& admin) {
    if (auto said = admin.census())
      answers[i].census = std::move(*said);
    if (auto said = admin.calls())
      answers[i].calls = std::move(*said);
  });
  told_pools told;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].calls)
      told.names.add(*answers[i].calls);
    if (answers[i].census)
      told.sum.add((*members)[i].name, *answers[i].census);
    else
      told.silent.push_back((*members)[i].name);
  }
  return told;
}

std::string silent_text(const told_pools& told) {
  return told.silent.empty() ? std::string{}
                             : fmt::format("do not answer: {}\n", fmt::join(told.silent, ", "));
}

exit_code show_hot(const global_options& globals, const census_arguments& given) {
  const auto told = ask_pools(globals, given.name);
  if (!told)
    return fail(globals, told.error());
  using side = text_table::align;
  text_table table(
      {{"READS", side::right}, {"LENGTH", side::right}, {"NODES"}, {"SPACE"}, {"DIGEST"}});
  auto list = nlohmann::json::array();
  for (const auto& page : told->sum.hottest(given.most)) {
    const auto space = told->names.name_of(space_in(page.digest).value);
    table.add_row({human_count(page.reads), human_bytes(page.bytes),
                   fmt::format("{}", fmt::join(page.nodes, ",")), space, digest_text(page.digest)});
    list.push_back({{"digest", digest_text(page.digest)},
                    {"reads", page.reads},
                    {"reads_over", page.reads_over},
                    {"length_bytes", page.bytes},
                    {"nodes", page.nodes},
                    {"space", space}});
  }
  auto text =
      list.empty() ? std::string("no page was read\n") : table.to_string(colour_allowed(stdout));
  text += fmt::format("reads of the last {}; one in eight by RDMA is counted\n",
                      human_duration(std::chrono::milliseconds(told->sum.window_ms())));
  print(globals, {{"pages", list}, {"window_ms", told->sum.window_ms()}, {"silent", told->silent}},
        text + silent_text(*told));
  return told->silent.empty() ? exit_code::ok : exit_code::degraded;
}

exit_code show_big(const global_options& globals, const census_arguments& given) {
  const auto told = ask_pools(globals, given.name);
  if (!told)
    return fail(globals, told.error());
  using side = text_table::align;
  text_table by_space({{"BYTES", side::right}, {"PAGES", side::right}, {"SPACE"}});
  auto spaces = nlohmann::json::array();
  for (const auto& one : told->sum.spaces(given.most)) {
    const auto name = one.space == 0 ? std::string("other spaces") : told->names.name_of(one.space);
    by_space.add_row({human_bytes(one.bytes), human_count(one.pages), name});
    spaces.push_back({{"space", name}, {"pages", one.pages}, {"bytes", one.bytes}});
  }
  text_table by_page({{"LENGTH", side::right}, {"NODE"}, {"SPACE"}, {"DIGEST"}});
  auto pages = nlohmann::json::array();
  for (const auto& page : told->sum.largest(given.most)) {
    const auto space = told->names.name_of(space_in(page.digest).value);
    by_page.add_row({human_bytes(page.bytes), page.node, space, digest_text(page.digest)});
    pages.push_back({{"digest", digest_text(page.digest)},
                     {"length_bytes", page.bytes},
                     {"node", page.node},
                     {"space", space}});
  }
  const bool colour = colour_allowed(stdout);
  const auto text = spaces.empty() ? std::string("no pages\n")
                                   : by_space.to_string(colour) + "\n" + by_page.to_string(colour);
  print(globals,
        {{"spaces", spaces},
         {"pages", pages},
         {"age_ms", told->sum.age_ms()},
         {"silent", told->silent}},
        text + silent_text(*told));
  return told->silent.empty() ? exit_code::ok : exit_code::degraded;
}

void add_census_command(command_line& line, const std::string& name, const std::string& help,
                        exit_code (*show)(const global_options&, const census_arguments&)) {
  auto given = std::make_shared<census_arguments>();
  auto* command = line.app.add_subcommand(name, help);
  command->add_option("NODE", given->name,
                      "Its name, as `peercache nodes` lists it [default: all]");
  command->add_option("--top", given->most, "How many")->capture_default_str();
  command->callback([&line, given, show] {
    line.action = [given, show](const global_options& globals) { return show(globals, *given); };
  });
}

} // namespace

void add_hotkeys_command(command_line& line) {
  add_census_command(line, "hotkeys",
                     "The pages that are read most from the nodes' pools, of the last five to ten "
                     "minutes (3: some nodes do not answer)",
                     show_hot);
}

void add_bigkeys_command(command_line& line) {
  add_census_command(line, "bigkeys",
                     "The spaces of most bytes and the largest pages in the nodes' pools (3: some "
                     "nodes do not answer)",
                     show_big);
}

} // namespace peercache::cli
