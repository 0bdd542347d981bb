#include "cli/command.hpp"

#include <fmt/format.h>
#include <thread>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

/// Waits until the asked node's view does not say that `name` is gone. False when `until` came
/// before that.
result<bool> view_forgot(client::admin_client& admin, const std::string& name,
                         clock::time_point until) {
  constexpr milliseconds pause(50);
  for (;;) {
    auto view = admin.view();
    if (!view)
      return view.error();
    if (view->find_gone(name) == nullptr)
      return true;
    if (clock::now() + pause > until)
      return false;
    std::this_thread::sleep_for(pause);
  }
}

/// Lets the leader of the view forget that `name` is gone.
result<bool> forget(const global_options& globals, const std::string& name) {
  const auto until = clock::now() + globals.timeout();
  auto admin = connect_admin(globals);
  if (!admin)
    return admin.error();
  auto view = (*admin)->view();
  if (!view)
    return view.error();
  if (view->find_name(name) != nullptr)
    return error{errc::invalid_argument,
                 fmt::format("'{}' is a member, not gone; end it in order, as by SIGTERM", name)};
  if (view->find_gone(name) == nullptr || view->leader() == nullptr)
    return error{errc::not_found,
                 fmt::format("nobody called '{}' is gone; `peercache nodes` lists who is", name)};
  auto leader = connect_node(globals, view->leader()->name);
  if (!leader)
    return leader.error();
  if (auto asked = (*leader)->forget(name); !asked)
    return asked.error();
  return view_forgot(**admin, name, until);
}

exit_code run_forget(const global_options& globals, const std::string& name) {
  const auto done = forget(globals, name);
  if (!done)
    return fail(globals, done.error());
  const auto text = *done ? fmt::format("{}: forgotten\n", name)
                          : fmt::format("{}: asked, but no view says so yet; ask again\n", name);
  print(globals, {{"node", name}, {"forgotten", *done}}, text);
  return *done ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_forget_command(command_line& line) {
  auto name = std::make_shared<std::string>();
  auto* command = line.app.add_subcommand(
      "forget", "Have the cluster forget a node that is gone for good (3: not in time)");
  command->add_option("NODE", *name, "Its name, as `peercache nodes` lists it")->required();
  command->callback([&line, name] {
    line.action = [name](const global_options& globals) { return run_forget(globals, *name); };
  });
}

} // namespace peercache::cli
