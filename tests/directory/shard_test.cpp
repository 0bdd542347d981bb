#include "directory/shard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace peercache::directory::shard_test {
namespace {

constexpr incarnation alice{1, 1};
constexpr incarnation bob{2, 2};
constexpr incarnation carol{3, 3};
constexpr incarnation dave{4, 4};
constexpr incarnation erin{5, 5};

page_key key_number(std::uint64_t number) {
  // By the finalizer of splitmix64, so that the key's bytes are as uniform as those of a digest.
  page_key key;
  for (std::size_t i = 0; i < key.bytes.size(); i += 8) {
    auto x = (number + i + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    std::memcpy(key.bytes.data() + i, &x, 8);
  }
  return key;
}

page_location location(incarnation holder, std::uint64_t gen, tier where = tier::memory) {
  return {.node = {holder.low},
          .holder = holder,
          .gen = {gen},
          .checksum = gen * 7,
          .slot = {static_cast<std::uint32_t>(gen)},
          .length_bytes = 4096,
          .where = where};
}

shard shard_with_members() {
  shard s;
  s.set_members(std::array{alice, bob, carol, dave, erin});
  return s;
}

std::vector<page_location> all_of(const shard& s, const page_key& key) {
  std::vector<page_location> out(limits::locations_per_key_max);
  out.resize(s.lookup(key, out));
  return out;
}

const page_key k = key_number(1);

TEST(shard, lookup_returns_what_was_published) {
  auto s = shard_with_members();
  EXPECT_EQ(s.publish(k, location(alice, 2), publish_mode::always), publish_outcome::accepted);
  EXPECT_EQ(all_of(s, k), std::vector{location(alice, 2)});
  EXPECT_TRUE(all_of(s, key_number(2)).empty());
  EXPECT_EQ(s.keys(), 1u);
  EXPECT_EQ(s.locations(), 1u);
}

TEST(shard, a_newer_generation_replaces_and_an_older_one_is_stale) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 4), publish_mode::always);
  EXPECT_EQ(s.publish(k, location(alice, 2), publish_mode::always), publish_outcome::stale);
  EXPECT_EQ(all_of(s, k), std::vector{location(alice, 4)});
  EXPECT_EQ(s.publish(k, location(alice, 6), publish_mode::always), publish_outcome::accepted);
  EXPECT_EQ(all_of(s, k), std::vector{location(alice, 6)});
  EXPECT_EQ(s.locations(), 1u);
}

TEST(shard, a_page_that_went_to_disk_is_not_called_back_by_a_late_publish) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 4), publish_mode::always);
  EXPECT_EQ(s.publish(k, location(alice, 4, tier::disk), publish_mode::always),
            publish_outcome::accepted);
  EXPECT_EQ(s.publish(k, location(alice, 4), publish_mode::always), publish_outcome::stale);
  EXPECT_EQ(all_of(s, k), std::vector{location(alice, 4, tier::disk)});
}

TEST(shard, publishing_the_same_again_is_accepted) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 4), publish_mode::if_absent);
  s.publish(k, location(bob, 2), publish_mode::always);
  EXPECT_EQ(s.publish(k, location(alice, 4), publish_mode::if_absent), publish_outcome::accepted)
      << "a retried message must not make the producer free the slot";
  EXPECT_EQ(s.locations(), 2u);
}

TEST(shard, the_same_generation_with_other_content_is_stale) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 4), publish_mode::always);
  auto forged = location(alice, 4);
  forged.slot = {99};
  EXPECT_EQ(s.publish(k, forged, publish_mode::always), publish_outcome::stale);
  EXPECT_EQ(all_of(s, k), std::vector{location(alice, 4)});
}

TEST(shard, a_withdrawal_takes_every_older_fact_with_it) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 4, tier::disk), publish_mode::always);
  EXPECT_FALSE(s.withdraw(k, alice, {4}, tier::memory)) << "it went to disk after that";
  EXPECT_TRUE(s.withdraw(k, alice, {6}, tier::memory));
  EXPECT_EQ(s.locations(), 0u);
}

TEST(shard, a_late_withdraw_does_not_remove_a_newer_publish) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 2), publish_mode::always);
  s.publish(k, location(alice, 4), publish_mode::always);
  EXPECT_FALSE(s.withdraw(k, alice, {2}));
  EXPECT_FALSE(s.withdraw(k, bob, {4}));
  EXPECT_FALSE(s.withdraw(key_number(2), alice, {4}));
  EXPECT_EQ(s.locations(), 1u);
  EXPECT_TRUE(s.withdraw(k, alice, {4}));
  EXPECT_EQ(s.locations(), 0u);
  EXPECT_EQ(s.keys(), 0u);
}

TEST(shard, if_absent_is_a_duplicate_only_of_another_members_memory) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 2, tier::disk), publish_mode::always);
  EXPECT_EQ(s.publish(k, location(bob, 2), publish_mode::if_absent), publish_outcome::accepted)
      << "a page on disk only is worth having in memory";
  EXPECT_EQ(s.publish(k, location(carol, 2), publish_mode::if_absent), publish_outcome::duplicate);
  EXPECT_EQ(s.publish(k, location(bob, 4), publish_mode::if_absent), publish_outcome::accepted)
      << "its own page";
  EXPECT_EQ(s.publish(k, location(carol, 2), publish_mode::always), publish_outcome::accepted);
  EXPECT_EQ(s.locations(), 3u);
}

TEST(shard, if_absent_never_believes_a_record_of_the_dead) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 2), publish_mode::always);
  EXPECT_EQ(s.set_members(std::array{bob}), 1u);
  EXPECT_EQ(s.publish(k, location(bob, 2), publish_mode::if_absent), publish_outcome::accepted);
  EXPECT_EQ(all_of(s, k), std::vector{location(bob, 2)});
}

TEST(shard, strangers_and_the_dead_are_unknown_owners) {
  shard s;
  EXPECT_EQ(s.publish(k, location(alice, 2), publish_mode::always), publish_outcome::unknown_holder)
      << "before the first view nobody is known";
  s.set_members(std::array{alice});
  EXPECT_EQ(s.publish(k, location(alice, 2), publish_mode::always), publish_outcome::accepted);
  EXPECT_EQ(s.publish(k, location(bob, 2), publish_mode::always), publish_outcome::unknown_holder);
  s.set_members(std::array{bob});
  EXPECT_EQ(s.publish(k, location(alice, 4), publish_mode::always),
            publish_outcome::unknown_holder);
  EXPECT_EQ(s.locations(), 0u);
}

TEST(shard, a_restarted_node_gets_none_of_its_old_records) {
  auto s = shard_with_members();
  auto old_process = location(alice, 8);
  s.publish(k, old_process, publish_mode::always);
  auto restarted = location(incarnation{9, 9}, 2);
  restarted.node = old_process.node;
  s.set_members(std::array{restarted.holder, bob});
  EXPECT_TRUE(all_of(s, k).empty());
  EXPECT_EQ(s.publish(k, restarted, publish_mode::if_absent), publish_outcome::accepted);
  EXPECT_EQ(all_of(s, k), std::vector{restarted});
}

TEST(shard, memory_comes_before_disk) {
  auto s = shard_with_members();
  s.publish(k, location(alice, 2), publish_mode::always);
  s.publish(k, location(bob, 2, tier::disk), publish_mode::always);
  s.publish(k, location(carol, 2), publish_mode::always);
  auto found = all_of(s, k);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2], location(bob, 2, tier::disk));
  std::array<page_location, 1> one;
  EXPECT_EQ(s.lookup(k, one), 1u);
  EXPECT_EQ(one[0].where, tier::memory);
}

TEST(shard, a_key_has_at_most_four_locations) {
  auto s = shard_with_members();
  for (auto holder : {alice, bob, carol, dave})
    EXPECT_EQ(s.publish(k, location(holder, 2), publish_mode::always), publish_outcome::accepted);
  EXPECT_EQ(s.publish(k, location(erin, 2), publish_mode::always), publish_outcome::duplicate);
  EXPECT_EQ(s.publish(k, location(erin, 2, tier::disk), publish_mode::always),
            publish_outcome::duplicate);
  EXPECT_EQ(s.publish(k, location(dave, 4), publish_mode::always), publish_outcome::accepted);
  EXPECT_TRUE(s.withdraw(k, bob, {2}));
  EXPECT_EQ(s.publish(k, location(erin, 2), publish_mode::always), publish_outcome::accepted);
}

TEST(shard, locations_that_make_no_sense_are_refused) {
  auto s = shard_with_members();
  EXPECT_EQ(s.publish(k, location(alice, 3), publish_mode::always), publish_outcome::refused)
      << "an odd generation is not readable";
  EXPECT_EQ(s.publish(k, location(alice, 0), publish_mode::always), publish_outcome::refused);
  auto empty = location(alice, 2);
  empty.length_bytes = 0;
  EXPECT_EQ(s.publish(k, empty, publish_mode::always), publish_outcome::refused);
  auto huge = location(alice, 2);
  huge.length_bytes = limits::page_bytes_max + 1;
  EXPECT_EQ(s.publish(k, huge, publish_mode::always), publish_outcome::refused);
  s.publish(k, location(alice, 2), publish_mode::always);
  auto other_node = location(alice, 4);
  other_node.node = {77};
  EXPECT_EQ(s.publish(k, other_node, publish_mode::always), publish_outcome::refused)
      << "one process is one node";
}

TEST(shard, a_full_shard_refuses_until_there_is_room) {
  shard s(2);
  s.set_members(std::array{alice});
  for (std::uint64_t i = 1; i <= 2; ++i)
    EXPECT_EQ(s.publish(key_number(i), location(alice, 2), publish_mode::always),
              publish_outcome::accepted);
  EXPECT_EQ(s.publish(key_number(3), location(alice, 2), publish_mode::always),
            publish_outcome::refused);
  EXPECT_EQ(s.publish(key_number(2), location(alice, 4), publish_mode::always),
            publish_outcome::accepted);
  s.withdraw(key_number(1), alice, {2});
  EXPECT_EQ(s.publish(key_number(3), location(alice, 2), publish_mode::always),
            publish_outcome::accepted);
}

TEST(shard, retain_forgets_only_what_it_should) {
  auto s = shard_with_members();
  for (std::uint64_t i = 0; i < 1000; ++i)
    s.publish(key_number(i), location(alice, 2), publish_mode::always);
  std::set<page_key> kept;
  for (std::uint64_t i = 0; i < 300; ++i)
    kept.insert(key_number(i));
  EXPECT_EQ(s.retain([&kept](const page_key& key) { return kept.contains(key); }), 700u);
  for (std::uint64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(all_of(s, key_number(i)).size(), i < 300 ? 1u : 0u);
}

TEST(shard, many_generations_of_members_do_not_use_up_owner_places) {
  shard s;
  for (std::uint64_t i = 1; i <= 70'000; ++i) {
    incarnation inc{i, i};
    s.set_members(std::array{inc});
    ASSERT_EQ(s.publish(k, location(inc, 2), publish_mode::always), publish_outcome::accepted) << i;
  }
  EXPECT_EQ(s.locations(), 1u);
}

/// A simple model of a shard, with which the test compares the real shard after random calls.
class model {
public:
  publish_outcome publish(const page_key& key, const page_location& l, publish_mode mode) {
    if (!members.contains(l.holder))
      return publish_outcome::unknown_holder;
    auto& there = records[key];
    const bool other = std::any_of(there.begin(), there.end(), [&](const page_location& have) {
      return have.holder != l.holder && have.where == tier::memory;
    });
    auto own = find(there, l.holder);
    const bool known = own != there.end();
    if (known) {
      if (*own == l)
        return publish_outcome::accepted;
      if (std::pair(l.gen, l.where) <= std::pair(own->gen, own->where))
        return publish_outcome::stale;
    }
    if (other && mode == publish_mode::if_absent)
      return publish_outcome::duplicate;
    if (!known && there.size() >= limits::locations_per_key_max) {
      auto cold = std::find_if(there.begin(), there.end(),
                               [](const auto& have) { return have.where == tier::disk; });
      if (l.where == tier::disk || cold == there.end())
        return publish_outcome::duplicate;
      there.erase(cold);
    }
    known ? void(*own = l) : there.push_back(l);
    return publish_outcome::accepted;
  }

  bool withdraw(const page_key& key, const incarnation& holder, generation gen, tier where) {
    auto& there = records[key];
    auto own = find(there, holder);
    if (own == there.end() || std::pair(own->gen.value, own->where) > std::pair(gen.value, where))
      return false;
    there.erase(own);
    return true;
  }

  template <class Drop>
  std::size_t drop(Drop gone) {
    std::size_t dropped = 0;
    for (auto& [key, there] : records)
      dropped += std::erase_if(
          there, [&, &of = key](const page_location& l) { return gone(of, l.holder); });
    return dropped;
  }

  std::size_t locations() const {
    std::size_t count = 0;
    for (const auto& [key, there] : records)
      count += there.size();
    return count;
  }

  std::set<incarnation> members;
  /// For each key: its locations, the oldest first.
  std::map<page_key, std::vector<page_location>> records;

private:
  static std::vector<page_location>::iterator find(std::vector<page_location>& there,
                                                   const incarnation& holder) {
    return std::find_if(there.begin(), there.end(),
                        [&](const page_location& have) { return have.holder == holder; });
  }
};

void compare(const shard& subject, const model& expected) {
  ASSERT_EQ(subject.locations(), expected.locations());
  std::size_t keys = 0;
  for (const auto& [key, there] : expected.records) {
    keys += there.empty() ? 0 : 1;
    auto found = all_of(subject, key);
    ASSERT_EQ(found.size(), there.size());
    for (const auto& l : found)
      ASSERT_NE(std::find(there.begin(), there.end(), l), there.end());
  }
  ASSERT_EQ(subject.keys(), keys);
}

void run_random_operations(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  shard subject;
  model expected;
  auto set_members = [&] {
    std::vector<incarnation> members;
    for (std::uint64_t i = 1; i <= 12; ++i)
      if (random() % 4 != 0)
        members.push_back({i, i});
    expected.members = {members.begin(), members.end()};
    auto gone = expected.drop(
        [&](const page_key&, const incarnation& o) { return !expected.members.contains(o); });
    ASSERT_EQ(subject.set_members(members), gone);
  };
  set_members();
  // Few keys, so that random steps meet the same key again; yet enough keys for the index to grow a
  // few times.
  auto keys = 50 + random() % 3000;
  for (int step = 0; step < 20'000; ++step) {
    auto key = key_number(random() % keys);
    incarnation holder{1 + random() % 12, 0};
    holder.low = holder.high;
    auto gen = 2 + 2 * (random() % 6);
    auto kind = random() % 10'000;
    if (kind < 6000) {
      auto l = location(holder, gen, random() % 3 == 0 ? tier::disk : tier::memory);
      auto mode = random() % 2 == 0 ? publish_mode::always : publish_mode::if_absent;
      ASSERT_EQ(subject.publish(key, l, mode), expected.publish(key, l, mode)) << step;
    } else if (kind < 9980) {
      auto where = random() % 3 == 0 ? tier::disk : tier::memory;
      ASSERT_EQ(subject.withdraw(key, holder, {gen}, where),
                expected.withdraw(key, holder, {gen}, where))
          << step;
    } else if (kind < 9990) {
      set_members();
    } else {
      auto keep = [](const page_key& kept) { return kept.bytes[3] % 4 != 0; };
      auto gone = expected.drop([&](const page_key& x, const incarnation&) { return !keep(x); });
      ASSERT_EQ(subject.retain(keep), gone);
    }
    if (step % 2000 == 0)
      compare(subject, expected);
  }
  compare(subject, expected);
}

TEST(shard, behaves_as_a_map_of_maps_under_random_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_random_operations(seed);
    if (HasFatalFailure())
      return;
  }
}

} // namespace
} // namespace peercache::directory::shard_test
