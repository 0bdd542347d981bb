#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/key_owners.hpp"
#include "cli/page_losses.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

using metrics::metric;

namespace {

using directory::page_location;

std::string_view word_of(directory::tier where) {
  return where == directory::tier::memory ? "memory" : "disk";
}

/// The member that a location record names; null when the record's process is not in the view: such
/// a record is never used.
const discovery::member* holder_of(const discovery::view& view, const page_location& location) {
  const auto* member = view.find(location.node);
  return member != nullptr && member->inc == location.holder ? member : nullptr;
}

nlohmann::json location_json(const page_location& location, const discovery::view& view) {
  const auto* holder = holder_of(view, location);
  return {{"node", holder != nullptr ? holder->name : to_string(location.node)},
          {"holder_in_view", holder != nullptr},
          {"incarnation", to_string(location.holder)},
          {"slot", location.slot.value},
          {"generation", location.gen.value},
          {"length_bytes", location.length_bytes},
          {"checksum", fmt::format("{:016x}", location.checksum)},
          {"tier", word_of(location.where)}};
}

exit_code locate(const global_options& globals, const key_arguments& arguments) {
  auto asked = connect_for(globals, arguments);
  if (!asked)
    return fail(globals, asked.error());
  auto& [keys, cache] = *asked;
  auto locations = cache->locate(keys);
  if (!locations)
    return fail(globals, locations.error());
  auto view = cache->view();
  using side = text_table::align;
  text_table table({{"KEY"},
                    {"NODE"},
                    {"TIER"},
                    {"LENGTH", side::right},
                    {"SLOT", side::right},
                    {"GENERATION", side::right}});
  nlohmann::json rows = nlohmann::json::array();
  bool all = true;
  for (std::size_t i = 0; i < locations->size(); ++i) {
    nlohmann::json found = nlohmann::json::array();
    for (const auto& location : (*locations)[i]) {
      auto fields = location_json(location, view);
      table.add_row({arguments.keys[i], fields["node"], fields["tier"],
                     human_bytes(location.length_bytes), std::to_string(location.slot.value),
                     std::to_string(location.gen.value)});
      found.push_back(std::move(fields));
    }
    if (found.empty())
      table.add_row({arguments.keys[i], "nowhere"});
    all = all && !found.empty();
    rows.push_back(
        {{"key", arguments.keys[i]}, {"digest", to_string(keys[i])}, {"locations", found}});
  }
  print(globals, {{"keys", rows}}, table.to_string(colour_allowed(stdout)));
  return all ? exit_code::ok : exit_code::failed;
}

struct explanation {
  std::vector<std::string> owners;
  std::vector<page_location> locations;
  client::page_result fetched{.status = page_status::not_found};
  double fetch_us = 0;
  /// Ports of other nodes that the node of this host cannot connect to, a sentence each.
  std::vector<std::string> closed_ports;
  page_losses_told lost; ///< How the page lately left nodes; asked for only after a miss.
};

void fetch(client::cache_client& from, const page_key& key, explanation& told) {
  if (told.locations.empty())
    return;
  std::vector<std::byte> bytes(told.locations.front().length_bytes);
  page_part part{bytes.data(), static_cast<std::uint32_t>(bytes.size())};
  client::get_page wanted{key, {&part, 1}};
  auto begin = std::chrono::steady_clock::now();
  from.get({&wanted, 1}, {&told.fetched, 1});
  told.fetch_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

std::string verdict_on_get(const explanation& told) {
  switch (told.fetched.status) {
  case page_status::hit:
    return fmt::format("a get is a hit: {} in {:.0f} us", to_string(told.fetched.origin),
                       told.fetch_us);
  case page_status::not_found:
    if (!told.lost.rows.empty())
      return "a get is a miss: the page is gone: " + text_of(told.lost.rows.front());
    return "a get is a miss: no directory owner knows the key; it was never put, was evicted long "
           "ago, or its namespace differs; see peercache sessions for who stores and who misses";
  case page_status::stale:
    return "a get is a miss: the record names a page that was evicted meanwhile; its directory "
           "owners are asked to forget it";
  case page_status::holder_gone:
    return "a get is a miss: the process that the record names is gone, and its directory owners "
           "are "
           "asked to forget it; see peercache nodes";
  case page_status::corrupt:
    return "a get is a miss: the bytes do not have the record's checksum; check the holder's "
           "memory "
           "and network";
  case page_status::timed_out:
    return "a get is a miss: the page's node did not send it in time; see peercache status";
  case page_status::unreachable:
    return "a get is a miss: the page's node, or all of the key's owners, cannot be reached; " +
           (told.closed_ports.empty() ? std::string("see peercache status")
                                      : fmt::format("{}", fmt::join(told.closed_ports, "; ")));
  default:
    return fmt::format("a get is a miss: {}; see peercache nodes and the holder's log",
                       to_string(told.fetched.status));
  }
}

/// What became of a get and why, with the nodes whose part in it is not known.
std::string verdict_of(const explanation& told) {
  const auto& silent = told.lost.silent;
  return verdict_on_get(told) +
         (silent.empty() ? std::string{}
                         : fmt::format("; how the page left {} is not known, {} not answer",
                                       fmt::join(silent, ", "),
                                       silent.size() == 1 ? "which does" : "which do"));
}

/// Adds what the node of this host knows: the names of the nodes whose shards hold the key's
/// records, by the hash ring, the first owner first; and the ports that it cannot connect to.
result<void> ask_node(const global_options& globals, const page_key& key, explanation& told) {
  auto admin = connect_admin(globals);
  if (!admin)
    return admin.error();
  auto view = (*admin)->view();
  auto status = (*admin)->status();
  if (!view || !status)
    return view ? status.error() : view.error();
  told.owners = key_owners(*view, status->count(metric::directory_owners)).names(key);
  for (const auto& fault : status->links.faults)
    told.closed_ports.push_back(sentence_of(fault));
  return {};
}

void print_explanation(const global_options& globals, const std::string& key_text,
                       const page_key& key, const discovery::view& view, const explanation& told) {
  fact_list facts;
  facts.add("key", key_text);
  facts.add("digest", to_string(key));
  facts.add("view", fmt::format("{} nodes, term {}, version {}", view.members.size(), view.term,
                                view.version));
  facts.add("owners", fmt::format("{}, by the ring", fmt::join(told.owners, ", ")));
  auto found = nlohmann::json::array();
  for (const auto& location : told.locations) {
    auto fields = location_json(location, view);
    facts.add("location",
              fmt::format("{}{}, {}, {}, slot {}, generation {}", fields["node"].get<std::string>(),
                          fields["holder_in_view"] ? "" : " (not in the view)",
                          word_of(location.where), human_bytes(location.length_bytes),
                          location.slot.value, location.gen.value));
    found.push_back(std::move(fields));
  }
  auto losses = nlohmann::json::array();
  for (const auto& loss : told.lost.rows) {
    facts.add("left", text_of(loss));
    losses.push_back(to_json(loss));
  }
  facts.add("verdict", verdict_of(told));
  print(globals,
        {{"key", key_text},
         {"digest", to_string(key)},
         {"view_term", view.term},
         {"view_version", view.version},
         {"owners", told.owners},
         {"locations", found},
         {"status", to_string(told.fetched.status)},
         {"origin", to_string(told.fetched.origin)},
         {"fetch_us", told.fetch_us},
         {"closed_ports", told.closed_ports},
         {"losses", losses},
         {"silent", told.lost.silent},
         {"verdict", verdict_of(told)}},
        facts.to_string());
}

exit_code explain(const global_options& globals, const key_arguments& arguments) {
  auto asked = connect_for(globals, arguments);
  if (!asked)
    return fail(globals, asked.error());
  auto& [keys, cache] = *asked;
  explanation told;
  auto known = ask_node(globals, keys.front(), told);
  auto locations = cache->locate({keys.data(), 1});
  if (!locations || !known)
    return fail(globals, locations ? known.error() : locations.error());
  if (!locations->empty())
    told.locations = locations->front();
  fetch(*cache, keys.front(), told);
  if (told.fetched.status != page_status::hit)
    told.lost = ask_losses(cache->view(), globals, keys.front());
  print_explanation(globals, arguments.keys[0], keys.front(), cache->view(), told);
  if (told.fetched.status == page_status::hit)
    return exit_code::ok;
  return told.lost.silent.empty() ? exit_code::failed : exit_code::degraded;
}

} // namespace

void add_key_command(command_line& line) {
  auto* command = line.app.add_subcommand("key", "Where pages are, and why a get hits or misses");
  command->require_subcommand(1);
  auto arguments = std::make_shared<key_arguments>();
  auto* where =
      command->add_subcommand("locate", "All known locations of the keys (1: some have none)");
  where->fallthrough();
  where->add_option("KEY", arguments->keys, "Keys of the pages")->required();
  add_space_options(*where, *arguments);
  where->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return locate(globals, *arguments);
    };
  });
  auto* why = command->add_subcommand(
      "explain", "Follow one key to its bytes and say what was met (1: a miss; 3: a miss, and "
                 "some nodes do not answer)");
  why->fallthrough();
  why->add_option("KEY", arguments->keys, "Key of the page")->required()->expected(1);
  add_space_options(*why, *arguments);
  why->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return explain(globals, *arguments);
    };
  });
}

} // namespace peercache::cli
