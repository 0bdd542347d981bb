#include "actors/disk/disk_actor.hpp"

#include "common/assert.hpp"
#include "common/page_status.hpp"
#include "link/beats.hpp"

#include <chrono>

namespace peercache::actors {
namespace {

/// How often this actor looks whether the disk's thread hangs.
constexpr std::chrono::seconds watch_every{1};

using disk_pointer = disk_actor::stateful_pointer<disk_actor_state>;

/// Returns a number for a command, and stores the promise that the command's answer fulfils.
std::uint64_t wait_for(disk_actor_state& state, caf::response_promise promise) {
  const auto request = state.next_request++;
  const bool is_new = state.waiting.emplace(request, std::move(promise)).second;
  PEERCACHE_ASSERT(is_new);
  return request;
}

void take_turn(disk_pointer self, disk_turn& turn) {
  auto& state = self->state;
  // A key may occur in several lists of a turn, so the lists are handled in the order in which
  // their events happened: answers, pages gone, pages stored.
  for (auto& answer : turn.answers) {
    const auto found = state.waiting.find(answer.request);
    PEERCACHE_ASSERT(found != state.waiting.end()); // Each command is answered once.
    if (answer.is_walk)
      found->second.deliver(std::move(answer.records), answer.next);
    else
      found->second.deliver(std::move(answer.records));
    state.waiting.erase(found);
  }
  for (auto& left : turn.gone)
    self->send(state.pool, gone_atom_v, left.ticket, std::move(left.keys), from_here{});
  if (!turn.stored.empty())
    self->send(state.pool, stored_atom_v, std::move(turn.stored), from_here{});
  if (turn.scanned)
    self->send(state.pool, walk_atom_v, from_here{});
}

caf::result<std::string> load(disk_pointer self, const std::string& wanted) {
  auto& state = self->state;
  if (!state.disk->on())
    return std::string(record_count<wanted_page>(wanted).value_or(0) * sizeof(loaded_page), '\0');
  auto promise = self->make_response_promise<std::string>();
  state.disk->load(wait_for(state, promise), wanted);
  return promise;
}

caf::result<std::string, std::uint64_t> walk(disk_pointer self, std::uint64_t after,
                                             std::uint32_t count) {
  auto& state = self->state;
  auto promise = self->make_response_promise<std::string, std::uint64_t>();
  if (state.disk->on())
    state.disk->walk(wait_for(state, promise), after, count);
  else
    promise.deliver(std::string{}, std::uint64_t{0});
  return promise;
}

caf::result<std::string> remove(disk_pointer self, const std::string& keys) {
  auto& state = self->state;
  if (!state.disk->on())
    return std::string(record_count<page_key>(keys).value_or(0),
                       static_cast<char>(page_status::not_found));
  auto promise = self->make_response_promise<std::string>();
  state.disk->remove(wait_for(state, promise), keys);
  return promise;
}

caf::result<std::string> keep_cleared(disk_pointer self, const std::string& known) {
  auto& state = self->state;
  if (!state.disk->on())
    return state.disk->why_not_kept();
  auto promise = self->make_response_promise<std::string>();
  state.disk->keep_cleared(wait_for(state, promise), known);
  return promise;
}

} // namespace

disk_actor::behavior_type run_disk_actor(disk_pointer self, disk_service* disk,
                                         const pool_actor& pool) {
  PEERCACHE_ASSERT(disk != nullptr);
  self->state.disk = disk;
  self->state.pool = pool;
  self->set_default_handler(caf::drop);
  if (disk->on())
    beat_within(self, watch_every);
  return {
      [self](write_atom, const std::string& pages, from_here) { self->state.disk->write(pages); },
      [self](load_atom, const std::string& wanted, from_here) { return load(self, wanted); },
      [self](walk_atom, std::uint64_t after, std::uint32_t count, from_here) {
        return walk(self, after, count);
      },
      [self](remove_atom, const std::string& keys, from_here) { return remove(self, keys); },
      [self](clear_atom, from_here) { self->state.disk->forget_old(); },
      [self](clear_atom, const std::string& known, from_here) { return keep_cleared(self, known); },
      [self](ack_atom, std::uint64_t ticket, from_here) { self->state.disk->acknowledge(ticket); },
      [self](verify_atom, from_here) {
        self->state.disk->verify();
        return self->state.disk->on();
      },
      [self](evict_atom, std::uint64_t bytes, from_here) {
        self->state.disk->make_room(bytes);
        return self->state.disk->on();
      },
      [self](stats_atom) -> caf::result<metrics::samples, disk_report> {
        // The report is asked for before the numbers, so that it is not newer than the numbers.
        auto report = self->state.disk->report();
        return {self->state.disk->samples(), std::move(report)};
      },
      [self](turn_atom, const disk_turn_ptr& turn) { take_turn(self, *turn); },
      [self](beat_atom, from_here) {
        self->state.disk->watch();
        beat_within(self, watch_every);
      },
  };
}

} // namespace peercache::actors
