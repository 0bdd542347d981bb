#pragma once

#include "actors/directory/directory_actor.hpp"
#include "actors/link_names.hpp"
#include "actors/pool/pool_actor.hpp"
#include "directory/wire.hpp"
#include "discovery/view_codec.hpp"
#include "link/protocol/pool_wire.hpp"
#include "tests/link/named_members.hpp"
#include "tests/storage/heap_pool.hpp"
#include "tests/support/actor_fixture.hpp"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace peercache::actors {

inline page_key key_named(const std::string& name) {
  return key_space{}.key_of(name);
}

/// Returns the answer of a fake membership actor to a question about its state: nothing.
inline caf::result<metrics::samples, membership_report> nothing_of_membership() {
  return {metrics::samples{}, membership_report{}};
}

/// A fake membership actor, which writes into `drains` whether its node was told to drain.
inline membership_actor::behavior_type fake_membership(membership_actor::pointer, bool* drains) {
  return {[](packet_atom, const std::string&) {},
          [](beat_atom, from_here) {},
          [](leave_atom, from_here) { return true; },
          [drains](drain_atom, bool draining, from_here) {
            *drains = draining;
            return true;
          },
          [](forget_atom, const std::string&, from_here) { return false; },
          [](stats_atom) { return nothing_of_membership(); },
          [](view_atom) { return std::string{}; }};
}

/// The pool of one node (`here`) and the directory shards of two nodes (`here` and `there`), as
/// actors on the test's own thread.
class cluster_fixture : public test::actor_fixture {
protected:
  explicit cluster_fixture(std::uint32_t granules = 64) : memory(granules) {}

  discovery::member here = member_named("here", 1);
  discovery::member there = member_named("there", 2);
  /// What the directories keep, by their numbers.
  std::map<caf::actor_id, std::shared_ptr<shared_shard>> shards;
  std::shared_ptr<shared_shard> own_shard; ///< What `shard_here` keeps, and `pool` changes as well.
  directory_actor shard_here = spawn_shard(here);
  directory_actor shard_there = spawn_shard(there);
  storage::heap_pool memory;
  std::uint64_t republish_rate = 0;
  std::uint64_t repair_rate = 0;
  std::uint64_t mirrored_bytes_max = 0;
  bool scrub_evicted = false;
  pool_actor pool = spawn_pool();

  ~cluster_fixture() override {
    stop(pool);
    stop(shard_here);
    stop(shard_there);
  }

  directory_actor spawn_shard(const discovery::member& who) {
    directory_options options;
    options.self = who.id;
    auto spawned = spawn_shard(options);
    if (who.id == here.id)
      own_shard = shards.at(spawned.id());
    return spawned;
  }
  directory_actor spawn_shard(const directory_options& options) {
    auto shard = make_shard(options);
    auto spawned = system.spawn(run_directory, options, shard);
    shards.emplace(spawned.id(), std::move(shard));
    return spawned;
  }

  pool_actor spawn_pool() {
    pool_actor_options options;
    options.self = here.id;
    options.inc = here.inc;
    options.shard = own_shard;
    options.republish_rate = republish_rate;
    options.repair_rate = repair_rate;
    options.repair_pause = std::chrono::milliseconds(1000);
    options.repair_settling = std::chrono::milliseconds(1000);
    options.mirrored_bytes_max = mirrored_bytes_max;
    auto slots = memory.slots();
    memory.holds().limit(16);
    return system.spawn(
        run_pool, options,
        std::make_unique<storage::page_pool>(
            slots,
            storage::make_eviction_policy(storage::eviction_kind::lru,
                                          std::uint64_t{slots.granules()} * limits::granule_bytes),
            storage::page_pool_options{.free_low_bytes = 1,
                                       .free_high_bytes = limits::granule_bytes,
                                       .scrub_evicted = scrub_evicted,
                                       .holds = memory.holds()}));
  }

  void restart_pool() {
    stop(pool);
    pool = spawn_pool();
  }

  void send_topology(const directory_actor& shard, const topology_ptr& cluster) {
    tell_directory(shard, *shards.at(shard.id()), cluster);
  }

  void tell_everyone(const topology_ptr& cluster) {
    send_topology(shard_here, cluster);
    send_topology(shard_there, cluster);
    caf::anon_send(pool, topology_atom_v, cluster);
    settle();
  }

  /// Tells the shard that its node was expelled: the cluster goes on in the view of the topology
  /// `without`.
  void expel(const directory_actor& shard, const topology_ptr& without) {
    tell_directory_to_leave(shard, *shards.at(shard.id()), without->view);
    settle();
  }

  topology_ptr both(std::uint64_t version = 1) {
    return topology_of({{here, shard_here}, {there, shard_there}}, version);
  }

  slot_id reserve(std::uint32_t length_bytes = 4096) {
    std::string lengths;
    append_record(lengths, length_bytes);
    auto slots = ask<std::string>(pool, reserve_atom_v, lengths, from_here{});
    return record_at<slot_id>(*slots, 0);
  }

  /// Fills a leased slot as a client of this host does. Returns the packed filled_slot for the
  /// commit.
  std::string fill_slot(const page_key& key, slot_id slot, std::uint32_t length_bytes = 4096) {
    memory.slots().fill(slot, key, length_bytes, /*checksum=*/0);
    std::string filled;
    append_record(filled, filled_slot{key, 0, slot, length_bytes});
    return filled;
  }

  page_status commit(const page_key& key, slot_id slot, commit_mode mode = commit_mode::skip,
                     std::uint32_t length_bytes = 4096) {
    auto pending =
        self->request(pool, caf::infinite, commit_atom_v, fill_slot(key, slot, length_bytes),
                      static_cast<std::uint8_t>(mode), std::string{}, from_here{});
    settle();
    auto status = page_status::pending;
    pending.receive([&](const std::string& statuses,
                        const std::string&) { status = static_cast<page_status>(statuses.at(0)); },
                    [](const caf::error&) { FAIL() << "commit was refused"; });
    return status;
  }

  page_status put(const page_key& key) { return commit(key, reserve()); }

  std::vector<directory::page_location> locations(const directory_actor& shard,
                                                  const page_key& key) {
    std::string request;
    directory::append_lookup(request, key);
    auto answer = ask<std::string>(shard, lookup_atom_v, request);
    std::array<directory::page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
    directory::answer_reader reader{*answer};
    EXPECT_TRUE(reader.next(found, count));
    return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  std::string publication(const page_key& key, const discovery::member& owner,
                          std::uint64_t gen = 2) {
    directory::publish_record record;
    record.key = key;
    record.location.node = owner.id;
    record.location.holder = owner.inc;
    record.location.gen = {gen};
    record.location.length_bytes = 4096;
    std::string batch;
    directory::append_publish(batch, record);
    return batch;
  }
};

} // namespace peercache::actors
