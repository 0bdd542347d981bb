// Tests of the pool, the promoter and the directory with a fake disk.

#include "tests/actors/pool_disk_fixture.hpp"

namespace peercache::actors {
namespace {

TEST_F(pool_disk_test, a_set_is_written_through_from_its_pinned_slot) {
  const auto slot = reserve();
  commit(key_named("a"), slot);
  ASSERT_EQ(kept(), 1u);
  const auto page = record_at<kept_page>(disk->kept, 0);
  EXPECT_EQ(page.key, key_named("a"));
  EXPECT_EQ(memory.slots().pins(slot), 1u);
  write_all();
  EXPECT_EQ(memory.slots().pins(slot), 0u);
  EXPECT_EQ(tier_of("a"), directory::tier::memory);
}

TEST_F(pool_disk_test, a_gate_that_is_full_or_shut_skips_the_disk_and_not_the_set) {
  gate.set_open(false);
  EXPECT_EQ(put(key_named("a")), page_status::stored);
  EXPECT_EQ(kept(), 0u);
  gate.set_open(true);
  ASSERT_TRUE(gate.enter(1u << 20));
  EXPECT_EQ(put(key_named("b")), page_status::stored);
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(gate.skipped(storage::write_skip::paused), 1u);
  EXPECT_EQ(gate.skipped(storage::write_skip::queue_full), 1u);
}

TEST_F(pool_disk_test, pages_that_a_set_pushes_out_at_once_are_counted_unless_they_are_on_disk) {
  fill(70);
  std::string lengths;
  for (int i = 0; i < 4; ++i)
    append_record(lengths, std::uint32_t{4096});
  ask<std::string>(pool, reserve_atom_v, lengths, from_here{});
  EXPECT_EQ(gate.skipped(storage::write_skip::evicted), 0u);
  gate.set_open(false);
  for (int i = 0; i < 70; ++i)
    put(key_named("page " + std::to_string(i)));
  ask<std::string>(pool, reserve_atom_v, lengths, from_here{});
  EXPECT_GE(gate.skipped(storage::write_skip::evicted), 3u);
}

TEST_F(pool_disk_test, a_page_that_was_skipped_is_written_when_it_goes) {
  gate.set_open(false);
  put(key_named("a"));
  gate.set_open(true);
  for (int i = 0; i < 70; ++i) {
    put(key_named("other " + std::to_string(i)));
    write_all();
    pass(std::chrono::milliseconds(60));
  }
  EXPECT_EQ(tier_of("a"), directory::tier::disk);
}

TEST_F(pool_disk_test, an_evicted_page_that_is_on_disk_is_known_there) {
  put(key_named("a"));
  write_all();
  fill(70);
  EXPECT_EQ(tier_of("a"), directory::tier::disk);
  EXPECT_TRUE(
      places_of(*ask<std::string>(pool, locate_atom_v, keys_of({"a"}), from_here{}), 1)[0].empty());
}

TEST_F(pool_disk_test, a_page_that_is_durable_after_its_eviction_is_known_then) {
  put(key_named("a"));
  const auto kept = record_at<kept_page>(disk->kept, 0);
  for (int i = 0; i < 70; ++i) {
    lose_all(); // The disk has copied the waiting pages, but they are not durable yet.
    put(key_named("other " + std::to_string(i)));
    pass(std::chrono::milliseconds(60));
  }
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  std::string stored;
  append_record(stored, stored_page{kept.key, 5, kept.length_bytes, 0});
  caf::anon_send(pool, stored_atom_v, stored, from_here{});
  settle();
  EXPECT_EQ(tier_of("a"), directory::tier::disk);
}

TEST_F(pool_disk_test, with_on_evict_a_page_is_written_when_it_goes) {
  use(/*write_through=*/false);
  tell_everyone(both(2));
  put(key_named("a"));
  EXPECT_EQ(kept(), 0u);
  for (int i = 0; i < 64; ++i) {
    put(key_named("other " + std::to_string(i)));
    pass(std::chrono::milliseconds(60));
  }
  ASSERT_GE(kept(), 1u);
  EXPECT_EQ(record_at<kept_page>(disk->kept, 0).key, key_named("a"));
  write_all();
  EXPECT_EQ(tier_of("a"), directory::tier::disk);
}

TEST_F(pool_disk_test, with_on_evict_batches_lose_no_page_once_their_size_is_known) {
  use(/*write_through=*/false);
  tell_everyone(both(2));
  // Four pages are more than the usual low watermark keeps free in a pool of 64 pages.
  constexpr int batch = 4;
  std::uint64_t lost_at_first = 0;
  for (int round = 0; round < 40; ++round) {
    std::string lengths;
    for (int i = 0; i < batch; ++i)
      append_record(lengths, std::uint32_t{4096});
    const auto slots = ask<std::string>(pool, reserve_atom_v, lengths, from_here{});
    for (int i = 0; i < batch; ++i)
      ASSERT_EQ(commit(key_named(std::to_string(round * batch + i)),
                       record_at<slot_id>(*slots, static_cast<std::size_t>(i))),
                page_status::stored);
    pass(std::chrono::milliseconds(60));
    write_all();
    if (round == 20)
      lost_at_first = gate.skipped(storage::write_skip::evicted);
  }
  EXPECT_EQ(gate.skipped(storage::write_skip::evicted), lost_at_first);
  EXPECT_LE(lost_at_first, std::uint64_t{batch});
  EXPECT_EQ(tier_of("80"), directory::tier::disk);
}

TEST_F(pool_disk_test, a_promoted_page_is_in_memory_and_published) {
  put(key_named("a"));
  write_all();
  fill(70);
  const auto places = promote({"a", "unknown"});
  ASSERT_EQ(places[0].size(), 1u);
  EXPECT_TRUE(places[1].empty());
  EXPECT_EQ(memory.slots().check(places[0][0].slot, places[0][0].gen, key_named("a"), 4096),
            page_status::hit);
  EXPECT_EQ(tier_of("a"), directory::tier::memory);
  EXPECT_EQ(kept(), 0u) << "it is on disk already";
  fill(70);
  EXPECT_EQ(tier_of("a"), directory::tier::disk) << "and still known to be";
}

/// A promote takes memory, so it may begin an eviction, of which every eighth victim is a page on
/// probation. The promoted page is the only one on probation, and must not be evicted for the next
/// ones. From round to round the pool is a page nearer to the start of an eviction.
TEST_F(pool_disk_test, a_promoted_page_does_not_make_room_for_the_next_ones) {
  storage::page_pool_options options;
  options.free_low_bytes = 4u << 12;
  options.free_high_bytes = 14u << 12;
  use(/*write_through=*/true, options);
  tell_everyone(both(2));
  constexpr int rounds = 12;
  const auto name = [](int round) { return "cold " + std::to_string(round); };
  for (int round = 0; round < rounds; ++round)
    put(key_named(name(round)));
  write_all();
  fill(70);
  for (int round = 0; round < rounds; ++round) {
    EXPECT_EQ(promote({name(round)})[0].size(), 1u) << round;
    ask<std::string>(pool, remove_atom_v, keys_of({name(round)}), from_here{});
    fill(1);
  }
}

TEST_F(pool_disk_test, many_readers_of_one_cold_page_cost_one_read) {
  put(key_named("a"));
  write_all();
  fill(70);
  disk->loads = 0;
  disk->holds_loads = true;
  constexpr int readers = 1000;
  for (int i = 0; i < readers; ++i)
    self->send(promoter, promote_atom_v, wanted({"a"}), std::uint32_t{1000}, from_here{});
  settle();
  disk->holds_loads = false;
  ASSERT_EQ(disk->held.size(), 1u);
  answer_held();
  int answered = 0;
  self->receive_for(answered, readers)(
      [&](const std::string& answer) { EXPECT_EQ(places_of(answer, 1)[0].size(), 1u); });
  EXPECT_EQ(disk->loads, 1u);
  EXPECT_EQ(count_of(promoter, metric::disk_promotes_total, {"joined"}), readers - 1u);
}

TEST_F(pool_disk_test, a_disk_that_does_not_answer_is_a_miss_at_the_deadline) {
  put(key_named("a"));
  put(key_named("b"));
  write_all();
  fill(70);
  const auto in_memory = key_named("c");
  put(in_memory);
  disk->holds_loads = true;
  auto pending = self->request(promoter, caf::infinite, promote_atom_v, wanted({"a", "c"}),
                               std::uint32_t{200}, from_here{});
  settle();
  pass(std::chrono::milliseconds(250));
  pending.receive(
      [&](const std::string& answer) {
        const auto places = places_of(answer, 2);
        EXPECT_TRUE(places[0].empty());
        EXPECT_EQ(places[1].size(), 1u) << "what is there is not lost with it";
      },
      [](const caf::error&) { FAIL(); });
  ASSERT_EQ(disk->held.size(), 1u);
  answer_held();
  EXPECT_EQ(tier_of("a"), directory::tier::memory) << "it came late, and is there now";
}

TEST_F(pool_disk_test, a_slot_whose_page_was_not_found_comes_back) {
  const auto before = count_of(pool, metric::pool_pages_filling);
  promote({"unknown"});
  EXPECT_EQ(count_of(pool, metric::pool_pages_filling), before);
}

TEST_F(pool_disk_test, a_page_that_leaves_the_disk_is_withdrawn_and_then_acknowledged) {
  put(key_named("a"));
  put(key_named("b"));
  write_all();
  fill(70);
  put(key_named("in memory"));
  write_all();
  caf::anon_send(pool, gone_atom_v, std::uint64_t{7}, keys_of({"a", "in memory"}), from_here{});
  settle();
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  EXPECT_TRUE(locations(shard_there, key_named("a")).empty());
  EXPECT_EQ(tier_of("b"), directory::tier::disk);
  EXPECT_EQ(tier_of("in memory"), directory::tier::memory);
  EXPECT_EQ(disk->acknowledged, std::vector<std::uint64_t>{7});
  fill(70);
  EXPECT_EQ(tier_of("in memory"), directory::tier::disk) << "it was written again when it went";
}

TEST_F(pool_disk_test, after_its_scan_the_disk_is_published) {
  disk->pages[key_named("old")] = {key_named("old"), 5, 4096, 0};
  caf::anon_send(pool, walk_atom_v, from_here{});
  settle();
  const auto found = locations(shard_there, key_named("old"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, directory::tier::disk);
  EXPECT_EQ(found[0].holder, here.inc);
  ASSERT_EQ(promote({"old"})[0].size(), 1u);
  EXPECT_EQ(tier_of("old"), directory::tier::memory);
}

TEST_F(pool_disk_test, a_new_owner_is_told_of_the_pages_on_disk) {
  tell_everyone(topology_of({{here, shard_here}}, 2));
  disk->pages[key_named("old")] = {key_named("old"), 5, 4096, 0};
  caf::anon_send(pool, walk_atom_v, from_here{});
  settle();
  tell_everyone(both(3));
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(locations(shard_there, key_named("old")).size(), 1u);
}

TEST_F(pool_disk_test, a_removed_page_is_gone_from_disk_too) {
  put(key_named("a"));
  put(key_named("b"));
  write_all();
  fill(70);
  EXPECT_EQ(tier_of("a"), directory::tier::disk);
  const auto statuses =
      ask<std::string>(pool, remove_atom_v, keys_of({"a", "unknown"}), from_here{});
  EXPECT_EQ(static_cast<page_status>(statuses->at(0)), page_status::hit);
  EXPECT_EQ(static_cast<page_status>(statuses->at(1)), page_status::not_found);
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
  EXPECT_TRUE(disk->pages.find(key_named("a")) == disk->pages.end());
}

TEST_F(pool_disk_test, what_is_to_be_written_is_handed_over_before_anything_is_removed) {
  use(/*write_through=*/false);
  tell_everyone(both(2));
  for (int i = 0; i < 80; ++i) {
    const auto filled = fill_slot(key_named("a" + std::to_string(i)), reserve());
    // The commit makes the pool evict, and stays open until the directory answers.
    self->send(pool, commit_atom_v, filled, static_cast<std::uint8_t>(commit_mode::skip),
               std::string{}, from_here{});
    self->send(pool, remove_atom_v, keys_of({"unknown"}), from_here{});
    settle();
    ASSERT_EQ(kept(), disk->kept_at_removal) << "it would be on disk though it was removed, " << i;
    pass(std::chrono::milliseconds(60));
  }
  EXPECT_GT(kept(), 0u);
}

TEST_F(pool_disk_test, a_removed_page_is_not_published_by_what_waits) {
  put(key_named("a"));
  disk->holds_removals = true;
  self->send(pool, remove_atom_v, keys_of({"a"}), from_here{});
  settle();
  // A topology without handles: the pool can tell no owner.
  tell_everyone(topology_of({{here, {}}, {there, {}}}, 2));
  std::string stored;
  append_record(stored, stored_page{key_named("a"), 5, 4096, 0});
  caf::anon_send(pool, stored_atom_v, stored,
                 from_here{}); // A message that the disk sent before the node was expelled.
  settle();
  answer_held();
  tell_everyone(both(3));
  pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(locations(shard_here, key_named("a")).empty());
}

TEST_F(pool_disk_test, a_disk_that_ends_before_it_has_answered_may_still_have_the_page) {
  put(key_named("a"));
  write_all();
  disk->holds_removals = true;
  auto answer = self->request(pool, caf::infinite, remove_atom_v, keys_of({"a"}), from_here{});
  settle();
  disk->ends = true;
  answer_held();
  answer.receive(
      [](const std::string& statuses) {
        EXPECT_EQ(static_cast<page_status>(statuses.at(0)), page_status::refused);
      },
      [](const caf::error& why) { ADD_FAILURE() << caf::to_string(why); });
}

TEST_F(pool_disk_test, a_page_that_is_set_while_it_is_being_removed_is_found) {
  put(key_named("a"));
  write_all();
  disk->holds_removals = true;
  self->send(pool, remove_atom_v, keys_of({"a"}), from_here{});
  settle();
  put(key_named("a"));
  answer_held();
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(tier_of("a"), directory::tier::memory);
}

TEST_F(pool_disk_test, an_owner_without_a_connection_hears_of_the_disk_when_it_has_one) {
  tell_everyone(topology_of({{here, shard_here}, {there, {}}}, 2));
  disk->pages[key_named("old")] = {key_named("old"), 5, 4096, 0};
  caf::anon_send(pool, walk_atom_v, from_here{});
  settle();
  for (int i = 0; i < 20; ++i)
    pass(std::chrono::milliseconds(60));
  tell_everyone(both(2));
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(locations(shard_there, key_named("old")).size(), 1u);
}

TEST_F(pool_disk_test, each_promote_ends_by_its_own_time_whatever_others_ask_for) {
  for (const auto* name : {"a", "b", "c"})
    put(key_named(name));
  write_all();
  fill(70);
  disk->holds_loads = true;
  const auto ask_for = [this](const char* name, std::uint32_t within_ms) {
    return self->request(promoter, caf::infinite, promote_atom_v, wanted({name}), within_ms,
                         from_here{});
  };
  int answered = 0;
  const auto expect_miss = [&](auto& pending) {
    pending.receive(
        [&](const std::string& answer) {
          ++answered;
          EXPECT_TRUE(places_of(answer, 1)[0].empty());
        },
        [](const caf::error&) { FAIL(); });
  };
  auto middle = ask_for("b", 400);
  auto last = ask_for("c", 600);
  auto first = ask_for("a", 200);
  settle();
  EXPECT_FALSE(self->has_next_message());
  for (auto* pending : {&first, &middle, &last}) {
    pass(std::chrono::milliseconds(199));
    EXPECT_FALSE(self->has_next_message());
    pass(std::chrono::milliseconds(1));
    expect_miss(*pending);
  }
  EXPECT_EQ(answered, 3);
}

TEST_F(pool_disk_test, of_more_pages_than_a_batch_may_have_the_first_are_warmed) {
  put(key_named("a"));
  write_all();
  fill(70);
  std::vector<std::string> names = {"a"};
  for (std::uint32_t i = 0; i < limits::batch_pages_max; ++i)
    names.push_back("unknown " + std::to_string(i));
  caf::anon_send(promoter, warm_atom_v, wanted(names), from_here{});
  settle();
  EXPECT_EQ(tier_of("a"), directory::tier::memory);
}

TEST_F(pool_disk_test, pages_that_nobody_waits_for_are_warmed_together) {
  for (const auto* name : {"a", "b", "c"})
    put(key_named(name));
  write_all();
  fill(70);
  caf::anon_send(promoter, warm_atom_v, wanted({"a", "b", "c"}), from_here{});
  settle();
  for (const auto* name : {"a", "b", "c"})
    EXPECT_EQ(tier_of(name), directory::tier::memory) << name;
}

} // namespace
} // namespace peercache::actors
