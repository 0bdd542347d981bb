#include "cli/command.hpp"
#include "cli/confirm.hpp"
#include "cli/option_forms.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;

struct clear_arguments {
  std::string space;
  std::vector<std::string> gone;
  milliseconds wait{10'000};
  confirmation confirm;
};

/// Says what a clear does, for the person who confirms it.
std::string what_is_done(const clear_arguments& arguments) {
  auto what = fmt::format("Every page of the space '{}' is withdrawn, on every node and disk, for "
                          "all clients.",
                          arguments.space);
  if (!arguments.gone.empty())
    what += fmt::format(" Clears no longer wait for these nodes, which must be lost for good, with "
                        "all clients on their hosts: {}.",
                        fmt::join(arguments.gone, ", "));
  return what;
}

exit_code clear(const global_options& globals, const clear_arguments& arguments) {
  const auto wanted = confirmed(globals, arguments.confirm, what_is_done(arguments));
  if (!wanted)
    return fail(globals, wanted.error());
  if (!*wanted)
    return exit_code::ok;
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  const auto report = (*admin)->clear(arguments.space, arguments.gone, arguments.wait);
  if (!report)
    return fail(globals, report.error());
  const auto text = report->certain
                        ? fmt::format("{}: cleared\n", arguments.space)
                        : fmt::format("{}: cleared, but a page of before may still be a hit: {}\n",
                                      arguments.space, report->why_not);
  print(globals,
        {{"space", arguments.space},
         {"certain", report->certain},
         {"epoch", report->epoch},
         {"unaware", report->unaware},
         {"missing", report->missing},
         {"why_not", report->why_not}},
        text);
  return report->certain ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_clear_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "clear", "Withdraw every page of a space, on every node and disk, for all clients (3: done "
               "where nodes answer, but not certain everywhere)");
  auto arguments = std::make_shared<clear_arguments>();
  command
      ->add_option("SPACE", arguments->space,
                   "The first field of its key spaces: of HiCache the model's name, with "
                   "'space:' before it where the JSON has one")
      ->required();
  add_confirmation(*command, arguments->confirm);
  command
      ->add_option("--gone", arguments->gone,
                   "Nodes that were lost for good, with all clients on their hosts: clears no "
                   "longer wait for them")
      ->delimiter(',')
      ->type_name("NODE");
  add_duration(*command, "--wait", arguments->wait, milliseconds(1), milliseconds(3'600'000),
               "How long nodes may take to confirm it");
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) { return clear(globals, *arguments); };
  });
}

} // namespace peercache::cli
