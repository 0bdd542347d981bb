#include "actors/membership/membership_actor.hpp"
#include "common/log.hpp"

#include <algorithm>

// Functions of a node's membership about the seeds in its configuration.
namespace peercache::actors {

void membership_state::take_addresses(caf::actor_clock::time_point now) {
  if (!options.names)
    return;
  auto& seeds = options.machine.seeds;
  const auto news = options.names->take();
  for (const auto& [seed, address] : news)
    if (!address)
      answers.no_address(seed, address.error().message);
  for (const auto& [seed, address] : news) {
    if (!address)
      continue;
    const discovery::endpoint found{*address, seed.port};
    log::info("membership: the seed {}:{} is at {}", seed.host, seed.port, found.host);
    answers.has_address(seed);
    std::replace(seeds.begin(), seeds.end(), seed, found);
    machine->correct_seed(seed, found, !answers.lacks_addresses(), now);
  }
}

bool membership_state::is_seed(const discovery::endpoint& at) const {
  const auto& seeds = options.machine.seeds;
  return std::find(seeds.begin(), seeds.end(), at) != seeds.end();
}

bool membership_state::has_only_itself_as_seed() const {
  const auto& seeds = options.machine.seeds;
  const auto is_own = [this](const discovery::endpoint& seed) {
    const auto way = routes.find(seed);
    return seed == discovery::control_endpoint(machine->self()) ||
           (way != routes.end() && way->second.inc == machine->self().inc);
  };
  return !had_company && machine->current().members.size() == 1 && !seeds.empty() &&
         std::all_of(seeds.begin(), seeds.end(), is_own);
}

bool membership_state::is_accounted_for(const discovery::endpoint& seed,
                                        const discovery::view& view) const {
  const auto is_there = [&seed](const auto& who) {
    return who.host == seed.host && who.control_port == seed.port;
  };
  if (std::any_of(view.members.begin(), view.members.end(), is_there) ||
      std::any_of(view.gone.begin(), view.gone.end(), is_there))
    return true;
  // The seed may be another address of a member.
  const auto way = routes.find(seed);
  return way != routes.end() && view.find(way->second.id) != nullptr;
}

} // namespace peercache::actors
