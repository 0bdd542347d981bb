#include "cli/command.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

exit_code remove_pages(const global_options& globals, const key_arguments& arguments) {
  auto asked = connect_for(globals, arguments);
  if (!asked)
    return fail(globals, asked.error());
  auto& [keys, cache] = *asked;
  std::vector<client::page_result> results(keys.size());
  cache->remove(keys, results);
  nlohmann::json pages = nlohmann::json::array();
  std::string text;
  std::size_t removed = 0;
  std::size_t unknown = 0; ///< Pages that may be there still: nobody answered in time.
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool gone = results[i].status == page_status::hit;
    removed += gone ? 1 : 0;
    unknown += gone || results[i].status == page_status::not_found ? 0 : 1;
    pages.push_back(
        {{"key", arguments.keys[i]}, {"removed", gone}, {"status", to_string(results[i].status)}});
    text +=
        fmt::format("{}: {}\n", arguments.keys[i],
                    gone ? "removed" : "not removed: " + std::string(to_string(results[i].status)));
  }
  print(globals, {{"keys", pages}}, text);
  return exit_code_of_pages(results.size(), removed, unknown);
}

} // namespace

void add_rm_command(command_line& line) {
  auto* command =
      line.app.add_subcommand("rm", "Withdraw pages wherever they are (1: some were not "
                                    "there; 3, 4: nobody to ask about some, about all)");
  auto arguments = std::make_shared<key_arguments>();
  command->add_option("KEY", arguments->keys, "Keys of the pages")->required();
  add_space_options(*command, *arguments);
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return remove_pages(globals, *arguments);
    };
  });
}

} // namespace peercache::cli
