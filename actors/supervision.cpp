#include "actors/supervision.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"

#include <caf/all.hpp>

#include <utility>

namespace peercache::actors {

void supervision::watch(const caf::strong_actor_ptr& actor, std::string name, kind how) {
  PEERCACHE_ASSERT(actor);
  actor->get()->attach_functor([state = state_, name = std::move(name), how,
                                system = actor->home_system](const caf::error& why) {
    if (state->ends_expected.load() || (how == kind::passing && !why))
      return;
    if (state->failed.exchange(true))
      return; // After the first failure other actors end because of it.
    auto text = name + " has ended unasked: " + (why ? system->render(why) : "it returned");
    log::error("node: {}", text);
    state->failure.store(std::move(text));
    if (const auto act = state->act.load(); *act)
      (*act)();
  });
}

} // namespace peercache::actors
