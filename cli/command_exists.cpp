#include "cli/command.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

exit_code exists(const global_options& globals, const key_arguments& arguments) {
  auto asked = connect_for(globals, arguments);
  if (!asked)
    return fail(globals, asked.error());
  auto& [keys, cache] = *asked;
  std::vector<client::page_result> results(keys.size());
  cache->exists(keys, results);
  nlohmann::json pages = nlohmann::json::array();
  text_table table({{"KEY"}, {"EXISTS"}, {"REASON"}});
  std::size_t there = 0;
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto status = results[i].status;
    // Only a directory owner can say that a key is not there; any other status means that nobody
    // knows.
    bool known = status == page_status::hit || status == page_status::not_found;
    bool exists = status == page_status::hit;
    there += exists ? 1 : 0;
    unknown += known ? 0 : 1;
    pages.push_back({{"key", arguments.keys[i]},
                     {"exists", known ? nlohmann::json(exists) : nlohmann::json()},
                     {"status", to_string(status)}});
    table.add_row({arguments.keys[i], !known ? "unknown" : (exists ? "yes" : "no"),
                   exists ? "" : std::string(to_string(status))});
  }
  print(globals, {{"keys", pages}}, table.to_string(colour_allowed(stdout)));
  return exit_code_of_pages(results.size(), there, unknown);
}

} // namespace

void add_exists_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "exists",
      "Whether pages could be read (1: not all; 3, 4: nobody to ask about some, about all)");
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
