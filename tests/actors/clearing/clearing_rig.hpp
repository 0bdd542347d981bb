#pragma once

#include "actors/clearing/clearing_actor.hpp"
#include "actors/gateway/gateway_actor.hpp"
#include "tests/actors/pool_disk_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace peercache::actors {

/// A fake pool, which answers requests to withdraw cleared pages when the test lets it.
struct played_pool {
  bool waits = false;
  std::uint32_t asked = 0;
  std::uint32_t views = 0; ///< Number of topologies that the pool has got.
  std::vector<caf::typed_response_promise<std::uint64_t>> held;
};

inline pool_actor::behavior_type play_pool(pool_actor::pointer self, played_pool* pool) {
  return {
      [](reserve_atom, const std::string&, from_here) { return std::string{}; },
      [](reserve_atom, from_here) {},
      [](commit_atom, const std::string&, std::uint8_t, const std::string&,
         from_here) -> caf::result<std::string, std::string> {
        return {std::string{}, std::string{}};
      },
      [](abandon_atom, const std::string&, from_here) {},
      [](used_atom, const std::string&, from_here) { return std::string{}; },
      [](hold_atom, const std::string&, std::uint32_t, std::uint32_t, from_here) {
        return std::string{};
      },
      [](remove_atom, const std::string&, from_here) { return std::string{}; },
      [](locate_atom, const std::string&, from_here) { return std::string{}; },
      [](restore_atom, const std::string&, from_here) { return std::string{}; },
      [](stored_atom, const std::string&, from_here) {},
      [](gone_atom, std::uint64_t, const std::string&, from_here) {}, [](walk_atom, from_here) {},
      [](hello_atom, const disk_actor&, from_here) {}, [](publish_atom, from_here) {},
      [](write_atom, std::uint32_t, from_here) -> caf::result<std::uint64_t, std::uint64_t> {
        return {std::uint64_t{0}, std::uint64_t{0}};
      },
      [self, pool](clear_atom, from_here) -> caf::result<std::uint64_t> {
        ++pool->asked;
        if (!pool->waits)
          return std::uint64_t{0};
        pool->held.push_back(self->make_response_promise<std::uint64_t>());
        return pool->held.back();
      },
      [](clear_atom, std::uint32_t, from_here) {}, [](withdraw_atom, from_here) { return true; },
      [](lost_atom, const std::string&, from_here) { return lost_report{}; },
      [](census_atom, from_here) { return page_census{}; },
      [](stats_atom) { return metrics::samples{}; },
      [pool](topology_atom, const topology_ptr&) { ++pool->views; },
      [](adopt_atom, const std::string&, from_here) {}, [](scrub_atom, from_here) {},
      // The test sends a beat to have the held requests answered.
      [pool](beat_atom, from_here) {
        for (auto& each : std::exchange(pool->held, {}))
          each.deliver(std::uint64_t{0});
      }};
}

class clearing_test : public test::actor_fixture {
protected:
  const space_id llama = space_named("llama");

  struct node {
    discovery::member self;
    std::unique_ptr<storage::epoch_block> memory = std::make_unique<storage::epoch_block>();
    played_pool withdrawals;
    pool_actor pool;
    clearing_actor clearing;
    gateway_actor gateway;
    bool caught_up = false;
    played_disk_ptr store = std::make_shared<played_disk>();
    disk_actor disk;
    std::string kept; ///< Bytes that the clearing actor last had the node keep on disk.
    /// If not empty: the error with which the node fails to keep bytes; `kept` stays as it is.
    std::string why_not_kept;
    life_record noted; ///< Record that the clearing actor last had the node keep in its pool.

    epoch_number epoch() const {
      return storage::epoch_table(*memory).epoch_of(space_named("llama"));
    }
    bool closed() const { return storage::epoch_table(*memory).closed(); }
  };

  std::map<std::string, node> nodes;
  std::uint64_t lives = 0;
  std::uint64_t clock_s = 1'800'000'000;

  ~clearing_test() override {
    for (auto& [name, each] : nodes)
      kill(each);
  }

  node& start(const std::string& name, const std::string& disk = {}) {
    auto& made = nodes[name];
    made.self = member_named(name, ++lives);
    made.memory = std::make_unique<storage::epoch_block>();
    made.withdrawals = {};
    made.caught_up = false;
    made.pool = system.spawn(play_pool, &made.withdrawals);
    clearing_options options;
    options.spaces = cleared_spaces(storage::epoch_table(*made.memory), made.self.inc);
    if (!disk.empty()) {
      EXPECT_TRUE(options.spaces.recall(disk));
    }
    options.self = made.self.inc;
    options.pool = made.pool;
    options.caught_up = [&made] { made.caught_up = true; };
    made.disk = system.spawn(play_disk, made.store);
    options.disk = made.disk;
    options.note = [&made](const life_record& life) { made.noted = life; };
    options.keep_at_end = [&made](const std::string& encoded) {
      if (made.why_not_kept.empty())
        made.kept = encoded;
      return made.why_not_kept;
    };
    options.unix_seconds = [this] { return clock_s; };
    made.clearing = system.spawn(run_clearing, std::move(options));
    gateway_options gate;
    gate.self = made.self;
    gate.clearing = made.clearing;
    gate.pool = made.pool;
    gate.ready = [](bool, const std::string&) {};
    gate.caught_up = [&made] { return made.caught_up; };
    made.gateway = system.spawn(run_gateway, std::move(gate));
    return made;
  }

  void kill(node& gone) {
    if (gone.gateway)
      stop(gone.gateway);
    if (gone.clearing)
      stop(gone.clearing);
    if (gone.pool)
      stop(gone.pool);
    if (gone.disk)
      stop(gone.disk);
  }

  /// Returns a topology of these members, with connections to all but those in `cut`.
  topology_ptr view_of(std::uint64_t version, std::vector<std::string> names,
                       const std::vector<std::string>& cut = {}) {
    auto made = std::make_shared<topology>();
    made->view.term = 1;
    made->view.version = version;
    std::sort(names.begin(), names.end(),
              [](const auto& a, const auto& b) { return node_id_of(a) < node_id_of(b); });
    for (const auto& name : names) {
      made->view.members.push_back(nodes[name].self);
      peer known;
      known.self = nodes[name].self;
      if (std::find(cut.begin(), cut.end(), name) == cut.end())
        known.gateway = nodes[name].gateway;
      made->peers.push_back(known);
    }
    made->view.masters = {made->view.members.front().name};
    return made;
  }

  void show(const std::string& name, const topology_ptr& cluster) {
    caf::anon_send(nodes[name].clearing, topology_atom_v, cluster);
  }
  void show_all(const topology_ptr& cluster) {
    for (const auto& member : cluster->view.members)
      show(member.name, cluster);
    settle();
  }

  /// Begins a clear by way of this node's gateway. Returns a function that returns the clear's
  /// answer, once there is one.
  std::function<std::optional<clear_report>()>
  begin_clear(const std::string& name,
              std::chrono::milliseconds within = std::chrono::milliseconds(1000),
              const std::string& gone = {}) {
    auto pending = std::make_shared<decltype(self->request(nodes[name].gateway, caf::infinite,
                                                           clear_atom_v, std::uint64_t{0},
                                                           std::uint32_t{0}, std::string{}))>(
        self->request(nodes[name].gateway, caf::infinite, clear_atom_v, llama.value,
                      static_cast<std::uint32_t>(within.count()), gone));
    settle();
    return [this, pending]() -> std::optional<clear_report> {
      std::optional<clear_report> report;
      if (self->has_next_message())
        pending->receive([&](const clear_report& said) { report = said; },
                         [](const caf::error&) { ADD_FAILURE(); });
      return report;
    };
  }
  clear_report clear(const std::string& name, const std::string& gone = {}) {
    auto answer = begin_clear(name, std::chrono::milliseconds(1000), gone);
    for (int beats = 0; beats < 30; ++beats) {
      if (auto report = answer())
        return *report;
      pass(std::chrono::milliseconds(100));
    }
    ADD_FAILURE() << "no answer";
    return {};
  }

  void pass_beats(int beats) {
    for (int i = 0; i < beats; ++i)
      pass(std::chrono::milliseconds(100));
  }

  using strings = std::vector<std::string>;
};

} // namespace peercache::actors
