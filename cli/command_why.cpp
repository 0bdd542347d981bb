#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/miss_causes.hpp"
#include "common/limits.hpp"
#include "common/log_limit.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {
namespace {

/// A node that was asked.
struct asked_node {
  discovery::member member;
  std::unique_ptr<client::admin_client> admin; ///< Null: it does not answer.
  std::optional<link::calls_report> calls;
  std::optional<link::lost_report> lost;
};

using fate_map = std::map<std::uint64_t, page_fate>;

result<std::vector<asked_node>> ask_calls(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return admin.error();
  auto view = (*admin)->view();
  if (!view)
    return view.error();
  std::vector<asked_node> nodes(view->members.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i].member = view->members[i];
  several_at_a_time(nodes.size(), [&](std::size_t i) {
    auto& node = nodes[i];
    auto found = client::admin_client::connect(node.member.host, node.member.control_port,
                                               globals.cluster, globals.timeout(), globals.tls);
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
    for (const auto& page : node.lost.value_or(link::lost_report{}).pages)
      fates[page.prefix].losses.push_back(page);
}

/// Asks the directory which pages are somewhere.
result<void> ask_directory(const global_options& globals, const std::vector<page_key>& keys,
                           fate_map& fates) {
  auto cache = connect_client(globals);
  if (!cache)
    return cache.error();
  auto places = (*cache)->locate(keys);
  if (!places)
    return places.error();
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!(*places)[i].empty())
      fates[keys[i].prefix()].is_there = true;
  return {};
}

double share_of(const miss_cause& one, std::uint64_t missed) {
  return missed == 0 ? 0 : static_cast<double>(one.pages) / static_cast<double>(missed);
}

/// What a client chose, for a terminal.
std::string shown(std::string_view said) {
  std::string text(peer_text(said));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

/// A caller's key: as it is, or its bytes in hex where some cannot be printed.
std::string key_text(const std::string& key) {
  if (std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return key;
  std::string hex;
  for (const unsigned char byte : key)
    hex += fmt::format("{:02x}", byte);
  return hex;
}

nlohmann::json cause_json(const miss_cause& one, std::uint64_t missed) {
  auto differs = nlohmann::json::array();
  for (const auto& each : one.differs)
    differs.push_back({{"field", shown(each.field)},
                       {"asked", shown(each.asked)},
                       {"stored", shown(each.stored)}});
  auto example = nlohmann::json();
  if (!one.digest.empty())
    example = {{"key", key_text(one.key)}, {"digest", one.digest}, {"age_ms", one.age_ms}};
  return {
      {"cause", shown(one.cause)},   {"door", shown(one.door)},        {"space", shown(one.space)},
      {"pages", one.pages},          {"share", share_of(one, missed)}, {"differs", differs},
      {"detail", shown(one.detail)}, {"fix", shown(one.fix)},          {"example", example}};
}

std::string cause_text(const miss_cause& one, std::uint64_t missed) {
  auto text = fmt::format("{:5.1f} %  {}  {} pages, {} {}\n         {}\n",
                          100 * share_of(one, missed), shown(one.cause), human_count(one.pages),
                          shown(one.door), shown(one.space), shown(one.detail));
  for (const auto& each : one.differs)
    text += fmt::format("         {}: asked with {}, stored with {}\n", shown(each.field),
                        shown(each.asked), shown(each.stored));
  if (!one.digest.empty())
    text += fmt::format("         for example {} ({}), {:.1f} s ago\n",
                        one.key.empty() ? "a page" : key_text(one.key), one.digest,
                        static_cast<double>(one.age_ms) / 1000);
  return text + fmt::format("         fix: {}\n", shown(one.fix));
}

exit_code print_causes(const global_options& globals, const miss_search& search,
                       const std::vector<miss_cause>& causes,
                       const std::vector<std::string>& silent) {
  auto rows = nlohmann::json::array();
  auto text =
      fmt::format("{} of {} pages missed in the last {} minutes\n", human_count(search.missed()),
                  human_count(search.asked()), link::calls_window_ms / 60'000);
  for (const auto& one : causes) {
    rows.push_back(cause_json(one, search.missed()));
    text += "\n" + cause_text(one, search.missed());
  }
  if (!silent.empty())
    text += fmt::format("\ndo not answer: {}\n", fmt::join(silent, ", "));
  print(globals,
        {{"asked", search.asked()},
         {"missed", search.missed()},
         {"window_ms", link::calls_window_ms},
         {"causes", rows},
         {"silent", silent}},
        text);
  if (!silent.empty())
    return exit_code::degraded;
  return causes.empty() ? exit_code::ok : exit_code::failed;
}

exit_code run_why(const global_options& globals) {
  auto nodes = ask_calls(globals);
  if (!nodes)
    return fail(globals, nodes.error());
  std::vector<told_calls> told;
  std::vector<std::string> silent;
  for (auto& node : *nodes) {
    if (!node.calls)
      silent.push_back(node.member.name);
    else
      for (auto& report : node.calls->clients)
        told.push_back({node.member.name, std::move(report)});
  }
  const miss_search search(std::move(told));
  const auto keys = search.keys();
  fate_map fates;
  if (!keys.empty()) {
    ask_losses(*nodes, keys, fates);
    if (auto asked = ask_directory(globals, keys, fates); !asked)
      return fail(globals, asked.error());
  }
  return print_causes(globals, search, search.causes(fates), silent);
}

} // namespace

void add_why_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "why", "Why pages were missed in the last minutes, and what to do (1: there were misses; 3: "
             "some nodes do not answer)");
  command->callback(
      [&line] { line.action = [](const global_options& globals) { return run_why(globals); }; });
}

} // namespace peercache::cli
