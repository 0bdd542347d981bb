#include "cli/command.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

exit_code exists(const global_options& globals, const key_arguments& arguments) {
  auto keys = arguments.parse();
  if (!keys)
    return fail(globals, keys.error());
  auto connected = connect_client(globals);
  if (!connected)
    return fail(globals, connected.error());
  std::vector<client::page_result> results(keys->size());
  (*connected)->exists(*keys, results);
  nlohmann::json pages = nlohmann::json::array();
  text_table table({{"KEY"}, {"EXISTS"}, {"REASON"}});
  for (std::size_t i = 0; i < results.size(); ++i) {
    bool there = results[i].status == page_status::hit;
    pages.push_back(
        {{"key", arguments.keys[i]}, {"exists", there}, {"status", to_string(results[i].status)}});
    table.add_row({arguments.keys[i], there ? "yes" : "no",
                   there ? "" : std::string(to_string(results[i].status))});
  }
  print(globals, {{"keys", pages}}, table.to_string(colour_allowed(stdout)));
  bool all = std::all_of(results.begin(), results.end(),
                         [](const auto& page) { return page.status == page_status::hit; });
  return all ? exit_code::ok : exit_code::failed;
}

} // namespace

void add_exists_command(command_line& line) {
  auto* command = line.app.add_subcommand("exists", "Whether pages could be read (1: not all)");
  auto arguments = std::make_shared<key_arguments>();
  command->add_option("KEY", arguments->keys, "Keys of the pages")->required();
  add_space_options(*command, *arguments);
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return exists(globals, *arguments);
    };
  });
}

} // namespace peercache::cli
