#include "cli/command.hpp"
#include "cli/members.hpp"
#include "cli/miss_causes.hpp"
#include "cli/page_places.hpp"
#include "cli/why_answer.hpp"

#include <optional>

namespace peercache::cli {
namespace {

/// A node that `peercache why` asks, with its answers.
struct asked_node {
  discovery::member member;
  /// Connection to the node; null when the node does not answer.
  std::unique_ptr<client::admin_client> admin;
  std::optional<link::calls_report> calls;
  std::optional<link::lost_report> lost;
};

using fate_map = std::map<std::uint64_t, page_fate>;

result<std::vector<asked_node>> ask_calls(const global_options& globals) {
  auto view = ask_view(globals);
  if (!view)
    return view.error();
  std::vector<asked_node> nodes(view->members.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i].member = view->members[i];
  several_at_a_time(nodes.size(), [&](std::size_t i) {
    auto& node = nodes[i];
    auto found = connect_member(node.member, globals);
    if (!found)
      return;
    node.admin = std::move(*found);
    if (auto said = node.admin->calls())
      node.calls = std::move(*said);
  });
  return nodes;
}

/// Asks all nodes how pages left them.
void ask_losses(std::vector<asked_node>& nodes, const std::vector<page_key>& keys,
                fate_map& fates) {
  several_at_a_time(nodes.size(), [&](std::size_t i) {
    if (!nodes[i].admin)
      return;
    if (auto said = nodes[i].admin->lost_pages(keys))
      nodes[i].lost = std::move(*said);
  });
  for (const auto& node : nodes)
    if (node.lost)
      for (const auto& page : node.lost->pages)
        fates[page.prefix].losses.push_back(page);
}

/// Asks the directory which pages some node has. Returns the number of keys for which the directory
/// did not answer.
std::size_t ask_directory(const global_options& globals, const std::vector<page_key>& keys,
                          fate_map& fates) {
  auto cache = connect_client(globals);
  return find_places(
      keys,
      [&](std::span<const page_key> piece) {
        return cache ? (*cache)->find_each(piece) : std::vector<page_status>{};
      },
      fates);
}

/// Names of the nodes that did not answer.
std::vector<std::string> silent_of(const std::vector<asked_node>& nodes, bool asked_for_losses) {
  std::vector<std::string> silent;
  for (const auto& node : nodes)
    if (!node.calls || (asked_for_losses && !node.lost))
      silent.push_back(node.member.name);
  return silent;
}

exit_code run_why(const global_options& globals) {
  auto nodes = ask_calls(globals);
  if (!nodes)
    return fail(globals, nodes.error());
  std::vector<told_calls> told;
  for (auto& node : *nodes)
    if (node.calls)
      for (auto& report : node.calls->clients)
        told.push_back({node.member.name, std::move(report)});
  const miss_search search(std::move(told));
  const auto keys = search.keys();
  fate_map fates;
  why_answer answer{.asked = search.asked(), .missed = search.missed()};
  if (!keys.empty()) {
    ask_losses(*nodes, keys, fates);
    answer.unlocated = ask_directory(globals, keys, fates);
  }
  answer.causes = search.causes(fates);
  answer.silent = silent_of(*nodes, !keys.empty());
  print(globals, to_json(answer), to_text(answer));
  return exit_code_of(answer);
}

} // namespace

void add_why_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "why", "Why pages were missed in the last minutes, and what to do (1: there were misses; 3: "
             "some nodes, or the directory, do not answer)");
  command->callback(
      [&line] { line.action = [](const global_options& globals) { return run_why(globals); }; });
}

} // namespace peercache::cli
