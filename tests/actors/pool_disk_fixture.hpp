#pragma once

#include "actors/disk/promoter_actor.hpp"
#include "tests/actors/cluster_fixture.hpp"

#include <map>

namespace peercache::actors {

/// A fake disk: its pages, and the requests that it has got.
struct played_disk {
  std::map<page_key, stored_page> pages;
  std::string kept; ///< Packed kept_page records of pages that wait for `write_all`.
  std::vector<std::uint64_t> acknowledged;
  std::uint32_t loads = 0;
  std::uint32_t clears = 0; ///< Number of requests to forget pages of cleared spaces.
  std::string cleared; ///< The bytes of the cleared spaces that the disk was last told to remember.
  /// If not empty: the error with which the disk answers requests to remember bytes.
  std::string why_not_kept;
  bool holds_clears = false;
  std::vector<caf::typed_response_promise<std::string>> held_clears;
  bool holds_loads = false;
  std::vector<std::pair<std::string, caf::typed_response_promise<std::string>>> held;
  bool holds_removals = false;
  std::size_t kept_at_removal = 0;
  bool ends = false; ///< Whether held removals are answered with an error.
  std::vector<std::pair<std::string, caf::typed_response_promise<std::string>>> held_removals;
};
using played_disk_ptr = std::shared_ptr<played_disk>;

inline std::string load_answer(const played_disk& disk, const std::string& wanted) {
  std::string answer;
  for (std::size_t i = 0; i < record_count<wanted_page>(wanted).value_or(0); ++i) {
    const auto page = record_at<wanted_page>(wanted, i);
    const auto found = disk.pages.find(page.key);
    loaded_page loaded;
    loaded.found = found != disk.pages.end() && found->second.length_bytes == page.length_bytes;
    loaded.checksum = loaded.found != 0 ? found->second.checksum : 0;
    append_record(answer, loaded);
  }
  return answer;
}

inline std::string remove_answer(played_disk& disk, const std::string& keys) {
  std::string statuses;
  for (std::size_t i = 0; i < record_count<page_key>(keys).value_or(0); ++i) {
    const bool was = disk.pages.erase(record_at<page_key>(keys, i)) != 0;
    statuses.push_back(static_cast<char>(was ? page_status::hit : page_status::not_found));
  }
  return statuses;
}

inline disk_actor::behavior_type play_disk(disk_actor::pointer self, const played_disk_ptr& disk) {
  return {
      [disk](write_atom, const std::string& pages, from_here) { disk->kept += pages; },
      [self, disk](load_atom, const std::string& wanted, from_here) -> caf::result<std::string> {
        ++disk->loads;
        if (!disk->holds_loads)
          return load_answer(*disk, wanted);
        auto promise = self->make_response_promise<std::string>();
        disk->held.emplace_back(wanted, promise);
        return promise;
      },
      [disk](walk_atom, std::uint64_t, std::uint32_t,
             from_here) -> caf::result<std::string, std::uint64_t> {
        std::string all;
        for (const auto& [key, page] : disk->pages)
          append_record(all, page);
        return {all, std::uint64_t{0}};
      },
      [self, disk](remove_atom, const std::string& keys, from_here) -> caf::result<std::string> {
        disk->kept_at_removal = record_count<kept_page>(disk->kept).value_or(0);
        if (!disk->holds_removals)
          return remove_answer(*disk, keys);
        auto promise = self->make_response_promise<std::string>();
        disk->held_removals.emplace_back(keys, promise);
        return promise;
      },
      [disk](clear_atom, from_here) { ++disk->clears; },
      [self, disk](clear_atom, const std::string& known, from_here) -> caf::result<std::string> {
        if (disk->holds_clears) {
          disk->held_clears.push_back(self->make_response_promise<std::string>());
          return disk->held_clears.back();
        }
        if (disk->why_not_kept.empty())
          disk->cleared = known;
        return disk->why_not_kept;
      },
      [disk](ack_atom, std::uint64_t ticket, from_here) { disk->acknowledged.push_back(ticket); },
      [](verify_atom, from_here) { return true; },
      [](evict_atom, std::uint64_t, from_here) { return true; },
      [](stats_atom) -> caf::result<metrics::samples, disk_report> {
        return {metrics::samples{}, disk_report{}};
      },
      [](beat_atom, from_here) {},
      // The test sends this to have the held requests answered.
      [disk](turn_atom, const disk_turn_ptr&) {
        for (auto& [wanted, promise] : std::exchange(disk->held, {}))
          promise.deliver(load_answer(*disk, wanted));
        for (auto& [keys, promise] : std::exchange(disk->held_removals, {}))
          if (disk->ends)
            promise.deliver(caf::make_error(caf::sec::request_receiver_down));
          else
            promise.deliver(remove_answer(*disk, keys));
      },
  };
}

class pool_disk_test : public cluster_fixture {
protected:
  pool_disk_test() {
    gate.set_open(true);
    actor = system.spawn(play_disk, disk);
    use(/*write_through=*/true);
    tell_everyone(both());
  }
  ~pool_disk_test() override {
    stop(promoter);
    stop(actor);
  }

  /// Makes the pool actor again, with the fake disk and a promoter. The pool keeps one page free,
  /// unless the options say something else.
  void use(bool write_through, const storage::page_pool_options& pool_options = {
                                   .free_low_bytes = 1, .free_high_bytes = 1u << 12}) {
    stop(pool);
    pool_actor_options options;
    options.self = here.id;
    options.inc = here.inc;
    options.disk = {&gate, memory.slots(), write_through};
    pool = system.spawn(run_pool, options,
                        std::make_unique<storage::page_pool>(
                            memory.slots(),
                            storage::make_eviction_policy(storage::eviction_kind::lru, 64u << 12),
                            pool_options));
    stop(promoter);
    promoter_options promotes;
    promotes.pool = pool;
    promotes.disk = actor;
    promoter = system.spawn(run_promoter, promotes);
    caf::anon_send(pool, hello_atom_v, actor, from_here{});
    settle();
  }

  /// Moves the pages that wait for the disk to the disk, and tells the pool that they are stored.
  void write_all() {
    std::string stored;
    for (std::size_t i = 0; i < kept(); ++i) {
      const auto page = record_at<kept_page>(disk->kept, i);
      const stored_page made{page.key, page.checksum, page.length_bytes, 0};
      append_record(stored, made);
      disk->pages[page.key] = made;
      memory.slots().unpin(page.slot);
      gate.leave(4096);
    }
    disk->kept.clear();
    caf::anon_send(pool, stored_atom_v, stored, from_here{});
    settle();
  }

  void answer_held() {
    caf::anon_send(actor, turn_atom_v, disk_turn_ptr{});
    settle();
  }

  /// Drops the pages that wait for the disk: unpins them without writing them.
  void lose_all() {
    for (std::size_t i = 0; i < kept(); ++i) {
      memory.slots().unpin(record_at<kept_page>(disk->kept, i).slot);
      gate.leave(4096);
    }
    disk->kept.clear();
  }

  std::size_t kept() const { return record_count<kept_page>(disk->kept).value_or(0); }

  /// Puts `count` new pages, each of which is written to disk at once.
  void fill(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(put(key_named("filler " + std::to_string(next_filler++))), page_status::stored);
      write_all();
      pass(std::chrono::milliseconds(60));
    }
  }

  directory::tier tier_of(const std::string& name) {
    const auto found = locations(shard_here, key_named(name));
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? directory::tier::memory : found[0].where;
  }

  std::vector<std::vector<directory::page_location>> promote(std::vector<std::string> names,
                                                             std::uint32_t within_ms = 1000) {
    const auto answer =
        ask<std::string>(promoter, promote_atom_v, wanted(names), within_ms, from_here{});
    return places_of(*answer, names.size());
  }

  static std::string keys_of(const std::vector<std::string>& names) {
    std::string keys;
    for (const auto& name : names)
      append_record(keys, key_named(name));
    return keys;
  }

  static std::string wanted(const std::vector<std::string>& names) {
    std::string pages;
    for (const auto& name : names)
      append_record(pages, promoted_page{key_named(name), 4096, 0});
    return pages;
  }

  static std::vector<std::vector<directory::page_location>> places_of(const std::string& answer,
                                                                      std::size_t count) {
    std::vector<std::vector<directory::page_location>> places;
    directory::answer_reader reader{answer};
    std::array<directory::page_location, limits::locations_per_key_max> found;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t there = 0;
      EXPECT_TRUE(reader.next(found, there));
      places.emplace_back(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(there));
    }
    return places;
  }

  disk_gate gate{1u << 20};
  played_disk_ptr disk = std::make_shared<played_disk>();
  disk_actor actor;
  promoter_actor promoter;
  int next_filler = 0;
};

} // namespace peercache::actors
