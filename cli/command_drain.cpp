#include "cli/command.hpp"
#include "cli/confirm.hpp"
#include "cli/option_forms.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
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

/// What became of a drain or an undrain.
struct drain_outcome {
  std::optional<link::drain_report> came_to; ///< Nothing: the node has not ended it in time.
  bool in_view = false;                      ///< The views say so.
  bool complete() const { return came_to && came_to->complete() && in_view; }
};

/// What a drain left behind and what to do; empty: nothing.
std::string left_text(const link::drain_report& came_to) {
  std::string text;
  if (came_to.left > 0)
    text += fmt::format("; up to {} records did not get there: gets of these pages may miss until "
                        "their nodes have told the new owners, so wait a minute before you stop it",
                        human_count(came_to.left));
  if (came_to.unwritten > 0)
    text += fmt::format("; {} pages are in its memory only and go when it stops: drain it again, "
                        "with a longer drain.timeout, or look at `peercache disk status`; where "
                        "disk.size is smaller than pool.size, no time is enough",
                        human_count(came_to.unwritten));
  // A second drain would say that nothing is left: by then the node owns no keys.
  if (came_to.uncertain)
    text += "; a part of it did not answer, so more may be left than that: look at its log, and "
            "wait a minute before you stop it";
  return text;
}

/// A count of the report; nothing for a 0 that may only mean that the part that counts did not
/// answer.
std::optional<std::uint64_t> known(const link::drain_report& came_to,
                                   std::uint64_t link::drain_report::*count) {
  const auto value = came_to.*count;
  return came_to.uncertain && value == 0 ? std::nullopt : std::optional(value);
}

std::string text_of(const std::string& node, const drain_outcome& outcome, bool drained) {
  if (!outcome.came_to)
    return fmt::format("{}: asked, but it is not done yet; it goes on\n", node);
  const auto& came_to = *outcome.came_to;
  if (!outcome.in_view)
    return fmt::format("{}: asked, but no view says so yet; it goes on{}\n", node,
                       left_text(came_to));
  if (!drained)
    return fmt::format("{}: takes part again\n", node);
  const auto given = known(came_to, &link::drain_report::given);
  return fmt::format("{}: drained, {} directory records are with their new owners{}; its pages can "
                     "still be read\n",
                     node, given ? human_count(*given) : "an unknown number of",
                     left_text(came_to));
}

nlohmann::json json_of(const std::string& node, const drain_outcome& outcome, bool drained) {
  nlohmann::json said{{"node", node}, {"draining", drained}, {"complete", outcome.complete()}};
  const auto number = [&](std::uint64_t link::drain_report::*field) {
    const auto count = outcome.came_to ? known(*outcome.came_to, field) : std::nullopt;
    return count ? nlohmann::json(*count) : nlohmann::json();
  };
  said["handed_over"] = number(&link::drain_report::given);
  said["left"] = number(&link::drain_report::left);
  said["unwritten_pages"] = number(&link::drain_report::unwritten);
  return said;
}

/// Has the node drained or not, and waits until the views of it and of the node at --node say so.
result<drain_outcome> carry_out(const global_options& globals, client::admin_client& admin,
                                const drain_arguments& arguments, bool drained) {
  const auto until = clock::now() + arguments.wait;
  drain_outcome outcome;
  auto came_to = admin.set_drained(drained, arguments.wait);
  if (!came_to) {
    // A node that answers other questions is only not done yet.
    if (came_to.error().code == errc::timed_out && admin.view())
      return outcome;
    return came_to.error();
  }
  outcome.came_to = *came_to;
  auto said = view_says(admin, arguments.node, drained, until);
  if (const auto asked = connect_admin(globals); asked && said && *said)
    said = view_says(**asked, arguments.node, drained, until);
  if (!said)
    return said.error();
  outcome.in_view = *said;
  return outcome;
}

exit_code set_drained(const global_options& globals, const drain_arguments& arguments,
                      bool drained) {
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
  const auto outcome = carry_out(globals, **admin, arguments, drained);
  if (!outcome)
    return fail(globals, outcome.error());
  print(globals, json_of(arguments.node, *outcome, drained),
        text_of(arguments.node, *outcome, drained));
  return outcome->complete() ? exit_code::ok : exit_code::degraded;
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
