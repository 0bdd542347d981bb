#include "actors/monitoring/key_search.hpp"

#include "actors/monitoring/overview_json.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace peercache::actors {

using nlohmann::json;

void key_search::add(owner said) {
  if (missing_ == 0)
    return;
  --missing_;
  owners_.push_back(std::move(said));
}

void key_search::answered(const std::string& name, std::string_view answer) {
  owner said;
  said.name = name;
  directory::answer_reader reader(answer);
  std::array<directory::page_location, limits::locations_per_key_max> found;
  std::size_t count = 0;
  if (!reader.next(found, count))
    said.fault = "its answer is malformed";
  else if ((said.not_mine = reader.not_mine()))
    said.fault = "by its view other nodes own the key";
  else
    said.locations.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
  add(std::move(said));
}

void key_search::failed(const std::string& name, const std::string& why) {
  add({name, why, {}, false});
}

namespace {

/// All locations that owners named, each once.
std::vector<directory::page_location> locations_of(const key_search& search) {
  std::vector<directory::page_location> all;
  for (const auto& owner : search.owners())
    for (const auto& location : owner.locations)
      if (std::find(all.begin(), all.end(), location) == all.end())
        all.push_back(location);
  return all;
}

json location_of(const directory::page_location& location, const discovery::view& view) {
  const auto* holder = view.find(location.node);
  const bool in_view = holder != nullptr && holder->inc == location.holder;
  return {{"node", holder != nullptr ? holder->name : to_string(location.node)},
          {"holder_in_view", in_view},
          {"tier", location.where == directory::tier::memory ? "memory" : "disk"},
          {"slot", location.slot.value},
          {"generation", location.gen.value},
          {"length_bytes", location.length_bytes}};
}

std::string verdict_on(const key_search& search, const json& locations) {
  const auto& owners = search.owners();
  std::size_t silent = 0, elsewhere = 0;
  for (const auto& owner : owners) {
    elsewhere += owner.not_mine;
    silent += !owner.fault.empty() && !owner.not_mine;
  }
  if (owners.empty())
    return "this node is in no cluster, so nobody owns the key";
  if (locations.empty() && silent > 0)
    return fmt::format("not known: {} of {} owners did not answer", silent, owners.size());
  if (locations.empty() && elsewhere > 0)
    return fmt::format(
        "not known: by the view of {} of {} owners other nodes own the key; ask again", elsewhere,
        owners.size());
  if (locations.empty())
    return "a get is a miss: no directory owner knows the key; it was never put, was evicted, or "
           "its namespace differs";
  const auto lives = std::any_of(locations.begin(), locations.end(),
                                 [](const json& each) { return each["holder_in_view"] == true; });
  return lives ? "a get should be a hit; `peercache key explain` tries one"
               : "a get is a miss: the process that the record names is gone";
}

} // namespace

std::string key_json(const key_search& search, const discovery::view& view) {
  auto owners = json::array();
  for (const auto& owner : search.owners())
    owners.push_back(
        {{"node", owner.name}, {"fault", owner.fault}, {"locations", owner.locations.size()}});
  auto locations = json::array();
  for (const auto& location : locations_of(search))
    locations.push_back(location_of(location, view));
  const auto verdict = verdict_on(search, locations);
  const json all{{"format", api_format},
                 {"digest", to_string(search.key())},
                 {"owners", std::move(owners)},
                 {"locations", std::move(locations)},
                 {"verdict", verdict}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace peercache::actors
