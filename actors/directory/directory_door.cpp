#include "actors/directory/directory_door.hpp"

#include "actors/directory/errors.hpp"
#include "common/assert.hpp"
#include "directory/wire.hpp"
#include "link/loop_actor.hpp"

#include <utility>

namespace peercache::actors {

namespace {

using door_pointer = directory_actor::stateful_pointer<directory_door_state>;

/// Bytes of a batch that the thread of the sockets applies: some microseconds' work.
constexpr std::size_t batch_bytes_max = 32 * directory::wire::publish_record_bytes;

/// Whether the door may change the shard itself: a batch must not overtake an earlier one.
bool is_free_for(const directory_door_state& state, const std::string& batch) {
  return state.changes_passed_on == 0 && batch.size() <= batch_bytes_max;
}

/// Passes a change on to the keeper, and its answer back.
template <class Answer, class... Message>
caf::result<Answer> pass_on(door_pointer self, Message... message) {
  ++self->state.changes_passed_on;
  auto promise = self->template make_response_promise<Answer>();
  self->request(self->state.options.keeper, caf::infinite, std::move(message)...)
      .then(
          [self, promise](Answer& said) mutable {
            --self->state.changes_passed_on;
            promise.deliver(std::move(said));
          },
          [self, promise](caf::error& why) mutable {
            --self->state.changes_passed_on;
            promise.deliver(std::move(why));
          });
  return promise;
}

caf::result<std::string> publish(door_pointer self, const std::string& batch,
                                 const directory::view_number& known) {
  if (is_free_for(self->state, batch))
    if (auto said = self->state.options.shard->try_publish(batch, known))
      return to_caf(std::move(*said));
  return pass_on<std::string>(self, publish_atom_v, batch, known.term, known.version);
}

caf::result<std::uint64_t> withdraw(door_pointer self, const std::string& batch) {
  if (is_free_for(self->state, batch))
    if (auto said = self->state.options.shard->try_withdraw(batch))
      return to_caf(std::move(*said));
  return pass_on<std::uint64_t>(self, withdraw_atom_v, batch);
}

} // namespace

directory_actor::behavior_type
run_directory_door(directory_actor::stateful_pointer<directory_door_state> self,
                   directory_door_options options) {
  PEERCACHE_ASSERT(options.shard && options.keeper);
  self->state.options = std::move(options);
  self->set_default_handler(caf::drop);
  const auto& keeper = self->state.options.keeper;
  return {
      [self](publish_atom, const std::string& batch) { return publish(self, batch, {}); },
      [self](publish_atom, const std::string& batch, std::uint64_t term, std::uint64_t version) {
        return publish(self, batch, {term, version});
      },
      [self](withdraw_atom, const std::string& batch) { return withdraw(self, batch); },
      [self, &keeper](lookup_atom, std::string& keys) {
        return self->delegate(keeper, lookup_atom_v, std::move(keys));
      },
      [self, &keeper](compare_atom, std::string& comparison) {
        return self->delegate(keeper, compare_atom_v, std::move(comparison));
      },
      [self, &keeper](list_atom, std::string& request) {
        return self->delegate(keeper, list_atom_v, std::move(request));
      },
      [self, &keeper](give_atom, bool leaving, std::uint32_t within_ms, from_here) {
        return self->delegate(keeper, give_atom_v, leaving, within_ms, from_here{});
      },
      [self, &keeper](stats_atom) { return self->delegate(keeper, stats_atom_v); },
      [self, &keeper](lost_atom, std::string& prefixes, from_here) {
        return self->delegate(keeper, lost_atom_v, std::move(prefixes), from_here{});
      },
      [](topology_atom, const topology_ptr&) {},
      [](leave_atom, const std::string&, from_here) {},
      [](clear_atom, from_here) {},
      [](pump_atom, from_here) {},
      [](beat_atom, from_here) {},
  };
}

directory_actor spawn_directory_door(caf::actor_system& system, directory_door_options options) {
  return link::spawn_on_loop(system, run_directory_door, std::move(options));
}

} // namespace peercache::actors
