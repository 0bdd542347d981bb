#include "cli/command.hpp"
#include "cli/confirm.hpp"
#include "cli/option_forms.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr milliseconds view_pause(50);

struct drain_arguments {
  std::string node;
  milliseconds wait{60'000};
  confirmation confirm;
};

/// Waits until the asked node's view says that the member `name` is draining, or not (`drained`).
/// False when `until` came before that.
result<bool> view_says(client::admin_client& admin, const std::string& name, bool drained,
                       clock::time_point until) {
  for (;;) {
    auto view = admin.view();
    if (!view)
      return view.error();
    const auto* member = view->find_name(name);
    if (member != nullptr && member->draining == drained)
      return true;
    if (clock::now() + view_pause > until)
      return false;
    std::this_thread::sleep_for(view_pause);
  }
}

/// The newer one of the views of `node` and of the node at --node. The node at --node knows of
/// drains that were ordered there earlier, of which `node` may not have heard.
result<discovery::view> newest_view(const global_options& globals, client::admin_client& node) {
  auto view = node.view();
  const auto asked = connect_admin(globals);
  auto other = asked ? (*asked)->view() : result<discovery::view>{asked.error()};
  return view && (!other || !other->newer_than(*view)) ? std::move(view) : std::move(other);
}

/// Whether a drain should go on. A drain that leaves no other node with keys is confirmed first,
/// because nobody would take pages. With --dry-run a drain is only described.
result<bool> drain_confirmed(const global_options& globals, const drain_arguments& arguments,
                             const discovery::view& view) {
  const auto stays = std::ranges::any_of(view.members, [&](const discovery::member& member) {
    return member.name != arguments.node && !member.draining;
  });
  if (stays && !arguments.confirm.dry_run)
    return true;
  const auto what = fmt::format(
      "{} gives its keys to {}and takes no pages{}.", arguments.node,
      stays ? "the others " : "nobody ",
      stays ? "" : "; it is the last node that does, so that every put is refused then");
  return confirmed(globals, arguments.confirm, what);
}

exit_code set_drained(const global_options& globals, const drain_arguments& arguments,
                      bool drained) {
  const auto until = clock::now() + arguments.wait;
  auto admin = connect_node(globals, arguments.node);
  if (!admin)
    return fail(globals, admin.error());
  if (drained) {
    const auto view = newest_view(globals, **admin);
    if (!view)
      return fail(globals, view.error());
    const auto wanted = drain_confirmed(globals, arguments, *view);
    if (!wanted)
      return fail(globals, wanted.error());
    if (!*wanted)
      return exit_code::ok;
  }
  auto records = (*admin)->set_drained(drained, arguments.wait);
  if (!records)
    return fail(globals, records.error());
  auto said = view_says(**admin, arguments.node, drained, until);
  if (const auto asked = connect_admin(globals); asked && said && *said)
    said = view_says(**asked, arguments.node, drained, until);
  if (!said)
    return fail(globals, said.error());
  auto text = drained ? fmt::format("{}: drained, {} directory records are with their new owners; "
                                    "its pages can still be read\n",
                                    arguments.node, *records)
                      : fmt::format("{}: takes part again\n", arguments.node);
  if (!*said)
    text = fmt::format("{}: asked, but no view says so yet; it goes on\n", arguments.node);
  print(globals,
        {{"node", arguments.node},
         {"draining", drained},
         {"complete", *said},
         {"handed_over", *records}},
        text);
  return *said ? exit_code::ok : exit_code::degraded;
}

void add(command_line& line, const std::string& name, const std::string& meaning, bool drained) {
  auto arguments = std::make_shared<drain_arguments>();
  auto* command = line.app.add_subcommand(name, meaning);
  command->add_option("NODE", arguments->node, "Its name")->required();
  add_duration(*command, "--wait", arguments->wait, milliseconds(1), milliseconds(86'400'000),
               "How long to wait for the end; the node goes on by itself");
  if (drained)
    add_confirmation(*command, arguments->confirm);
  command->callback([&line, arguments, drained] {
    line.action = [arguments, drained](const global_options& globals) {
      return set_drained(globals, *arguments, drained);
    };
  });
}

} // namespace

void add_drain_command(command_line& line) {
  add(line, "drain",
      "Have a node give its part of the directory away and take no pages; those that it has stay "
      "readable (3: not all of that in time)",
      true);
}

void add_undrain_command(command_line& line) {
  add(line, "undrain", "Have a drained node take part again (3: not in time)", false);
}

} // namespace peercache::cli
