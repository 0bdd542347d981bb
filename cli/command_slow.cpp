#include "cli/command.hpp"
#include "cli/members.hpp"
#include "cli/slow_rows.hpp"

#include <fmt/format.h>
#include <optional>

namespace peercache::cli {
namespace {

exit_code show_slow(const global_options& globals, const std::string& name, std::size_t most) {
  const auto members = members_named(globals, name);
  if (!members)
    return fail(globals, members.error());
  std::vector<std::optional<link::calls_report>> told(members->size());
  ask_members(*members, globals, [&](std::size_t i, client::admin_client& admin) {
    if (auto said = admin.calls())
      told[i] = std::move(*said);
  });
  std::vector<slow_row> rows;
  auto silent = nlohmann::json::array();
  for (std::size_t i = 0; i < told.size(); ++i)
    if (told[i])
      add_slow_calls((*members)[i].name, *told[i], rows);
    else
      silent.push_back((*members)[i].name);
  sort_slowest(rows, most);
  using side = text_table::align;
  text_table table({{"TOOK MS", side::right},
                    {"CALL"},
                    {"PAGES", side::right},
                    {"FAILED", side::right},
                    {"WAITED FOR"},
                    {"WAIT MS", side::right},
                    {"AGO", side::right},
                    {"CLIENT"},
                    {"NODE"}});
  auto list = nlohmann::json::array();
  for (const auto& row : rows) {
    table.add_row(cells_of(row));
    list.push_back(to_json(row));
  }
  auto text = rows.empty()
                  ? fmt::format("no calls in the last {} minutes\n", link::calls_window_ms / 60'000)
                  : table.to_string(colour_allowed(stdout));
  for (const auto& one : silent)
    text += fmt::format("{} does not answer\n", one.get<std::string>());
  print(globals, {{"calls", list}, {"window_ms", link::calls_window_ms}, {"silent", silent}}, text);
  return silent.empty() ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_slow_command(command_line& line) {
  struct arguments {
    std::string name;
    std::size_t most = 20;
  };
  auto given = std::make_shared<arguments>();
  auto* command = line.app.add_subcommand(
      "slow", "The slowest calls of the last five minutes, and what each waited for (3: some nodes "
              "do not answer)");
  command->add_option("NODE", given->name,
                      "Its name, as `peercache nodes` lists it [default: all]");
  command->add_option("--top", given->most, "How many")->capture_default_str();
  command->callback([&line, given] {
    line.action = [given](const global_options& globals) {
      return show_slow(globals, given->name, given->most);
    };
  });
}

} // namespace peercache::cli
