#include "directory/remote_search.hpp"

#include "directory/shard.hpp"
#include "directory/shard_batch.hpp"
#include "tests/directory/shard_records.hpp"

#include <gtest/gtest.h>
#include <random>

namespace peercache::directory::remote_search_test {
namespace {

constexpr view_number view{3, 4};

/// A shard, and a reader on another host that knows only its memory.
class remote_search_test : public testing::Test {
protected:
  shard s;
  known_shard_ptr known;
  known_lines lines;
  bool remembers = false; ///< Whether searches know what former ones have found.
  std::uint64_t reads = 0;
  int rounds = 0;
  bool owns = true;
  view_number by = view;

  void SetUp() override {
    s.set_members(std::array{alice, bob});
    s.set_view(view);
  }

  void publish(std::size_t which, const page_location& what) {
    ASSERT_EQ(s.publish(numbered_key(which), what, publish_mode::always),
              publish_outcome::accepted);
  }

  unit_words unit(unit_number number) {
    unit_words words;
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = s.memory().at(number).words[i].load();
    return words;
  }

  /// Looks keys up; `between` runs before each unit is READ. Nothing: the node has to be asked.
  std::optional<std::string> search(
      const std::vector<page_key>& keys, const std::function<void()>& between = [] {}) {
    remote_search of(keys, known, {by, [this](const page_key&) { return owns; }},
                     {remembers ? &lines : nullptr, alice, {}});
    while (of.where() == remote_search::state::reading) {
      std::vector<unit_words> arrived;
      for (const auto number : of.units()) {
        between();
        arrived.push_back(unit(number));
      }
      of.take(arrived);
    }
    known = of.known();
    reads = of.reads();
    rounds = of.rounds();
    if (of.where() == remote_search::state::ask)
      return std::nullopt;
    return of.answer();
  }

  std::string asked(const std::vector<page_key>& keys) {
    std::string batch;
    for (const auto& each : keys)
      append_lookup(batch, each);
    return *lookup_batch(s, batch);
  }
};

TEST_F(remote_search_test, a_second_search_takes_two_rounds_and_two_reads_a_key) {
  for (std::size_t i = 0; i < 20; ++i)
    publish(i, location_at(i % 2 == 0 ? alice : bob, 2 * i + 2));
  const std::vector keys{numbered_key(3), numbered_key(7), numbered_key(11)};
  EXPECT_TRUE(search(keys) == asked(keys));
  EXPECT_EQ(rounds, 4) << "the header and the holders come first";
  EXPECT_TRUE(search(keys) == asked(keys));
  EXPECT_EQ(rounds, 2);
  EXPECT_EQ(reads, 1u + 2 * keys.size()) << "records show by themselves that they are right";
}

TEST_F(remote_search_test, what_a_former_search_has_found_takes_one_round) {
  remembers = true;
  for (std::size_t i = 0; i < 20; ++i)
    publish(i, location_at(i % 2 == 0 ? alice : bob, 2 * i + 2));
  const std::vector keys{numbered_key(3), numbered_key(7), numbered_key(11)};
  search(keys);
  EXPECT_TRUE(search(keys) == asked(keys));
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(reads, 1 + keys.size()) << "the header, and the line of each key";
}

TEST_F(remote_search_test, what_has_changed_since_a_former_search_is_read_again) {
  remembers = true;
  for (std::size_t i = 0; i < 8; ++i)
    publish(i, location_at(alice, 2));
  const std::vector keys{numbered_key(3)};
  search(keys);
  publish(3, location_at(alice, 4));
  EXPECT_TRUE(search(keys) == asked(keys)) << "the record is another one, at the same place";
  EXPECT_EQ(rounds, 2);
  EXPECT_TRUE(search(keys) == asked(keys));
  EXPECT_EQ(rounds, 1) << "and was remembered";
  publish(3, location_at(bob, 6));
  EXPECT_TRUE(search(keys) == asked(keys)) << "there are two records";
  EXPECT_TRUE(search(keys) == asked(keys));
  EXPECT_EQ(rounds, 3) << "which are never remembered";
  s.withdraw(numbered_key(3), bob, {6});
  s.withdraw(numbered_key(3), alice, {4});
  EXPECT_TRUE(search(keys) == asked(keys)) << "there is none";
}

TEST_F(remote_search_test, what_a_former_search_has_found_behind_a_full_line_takes_one_round) {
  remembers = true;
  std::size_t passed = 0;
  for (std::size_t i = 0; i < 2000; ++i)
    publish(i, location_at(alice, 2));
  search({numbered_key(0)});
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::vector keys{numbered_key(i)};
    EXPECT_TRUE(search(keys) == asked(keys));
    passed += rounds > 2 ? 1 : 0;
    EXPECT_TRUE(search(keys) == asked(keys));
    EXPECT_EQ(rounds, 1);
  }
  EXPECT_GT(passed, 10u) << "keys that are not in their first line";
  for (std::size_t i = 0; i < 2000; ++i)
    s.withdraw(numbered_key(i), alice, {2});
  for (std::size_t i = 2000; i-- > 0;)
    publish(i, location_at(alice, 4)); // In other lines than before, as they come in another order.
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::vector keys{numbered_key(i)};
    EXPECT_TRUE(search(keys) == asked(keys)) << i;
  }
}

TEST_F(remote_search_test, what_was_found_under_another_header_is_read_again) {
  remembers = true;
  publish(1, location_at(alice, 2));
  publish(2, location_at(bob, 2));
  search({numbered_key(1)});
  s.follow(std::array{bob});
  EXPECT_TRUE(search({numbered_key(1)}) == asked({numbered_key(1)})) << "its holder is gone";
  s.forbid_remote_reads();
  EXPECT_FALSE(search({numbered_key(1)}));
}

TEST_F(remote_search_test, what_has_no_record_takes_one_round) {
  publish(1, location_at(alice, 2));
  const std::vector keys{numbered_key(100), numbered_key(101)};
  search(keys);
  EXPECT_TRUE(search(keys) == asked(keys));
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(reads, 1 + keys.size());
}

TEST_F(remote_search_test, answers_as_the_node_does_whatever_lies_in_the_shard) {
  remembers = true;
  std::mt19937 random(5);
  const std::array holders{alice, bob, incarnation{3, 3}, incarnation{4, 4}};
  s.set_members(holders);
  for (int i = 0; i < 20'000; ++i) {
    const auto which = random() % 3000;
    const auto& holder = holders[random() % holders.size()];
    const auto gen = 2 * static_cast<std::uint64_t>(i) + 2;
    if (random() % 3 != 0)
      s.publish(numbered_key(which),
                location_at(holder, gen, random() % 4 == 0 ? tier::disk : tier::memory),
                publish_mode::always);
    else
      s.withdraw(numbered_key(which), holder, {gen}, tier::disk);
  }
  s.follow(std::array{alice, incarnation{3, 3}});
  for (std::size_t i = 0; i < 3000; i += 60) {
    std::vector<page_key> keys;
    for (std::size_t k = i; k < i + 60; ++k)
      keys.push_back(numbered_key(k));
    ASSERT_TRUE(search(keys) == asked(keys)) << i;
    ASSERT_TRUE(search(keys) == asked(keys)) << i << ", by what the first search has found";
  }
}

TEST_F(remote_search_test, asks_the_node_of_a_shard_without_a_view) {
  publish(1, location_at(alice, 2));
  EXPECT_TRUE(search({numbered_key(1)}));
  s.set_view({});
  EXPECT_FALSE(search({numbered_key(1)}));
  s.set_view(view);
  EXPECT_TRUE(search({numbered_key(1)}));
}

TEST_F(remote_search_test, asks_the_node_of_a_shard_that_must_not_be_read) {
  publish(1, location_at(alice, 2));
  EXPECT_TRUE(search({numbered_key(1)}));
  s.forbid_remote_reads();
  EXPECT_FALSE(search({numbered_key(1)})) << "although the header is known, and as it was";
  publish(2, location_at(alice, 4));
  s.set_view({3, 5});
  EXPECT_FALSE(search({numbered_key(1)})) << "changes of the shard do not allow it";
  s.set_view(view);
  s.allow_remote_reads();
  EXPECT_TRUE(search({numbered_key(1)}));
}

TEST_F(remote_search_test, by_another_view_only_what_is_there_is_told) {
  publish(1, location_at(alice, 2));
  by = {3, 5};
  EXPECT_TRUE(search({numbered_key(1)}));
  EXPECT_FALSE(search({numbered_key(1), numbered_key(2)})) << "the node knows who owns key 2";
}

TEST_F(remote_search_test, a_key_of_other_owners_is_not_mine) {
  owns = false;
  const auto answer = search({numbered_key(1)});
  ASSERT_TRUE(answer);
  answer_reader reader(*answer);
  std::array<page_location, limits::locations_per_key_max> found;
  std::size_t count = 1;
  ASSERT_TRUE(reader.next(found, count));
  EXPECT_TRUE(reader.not_mine());
  EXPECT_EQ(reader.view(), view);
}

TEST_F(remote_search_test, bytes_that_are_no_shard_are_not_believed) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 200; ++i) {
    std::vector<page_key> keys{numbered_key(1), numbered_key(2)};
    remote_search of(keys, known, {view, [](const page_key&) { return true; }});
    while (of.where() == remote_search::state::reading) {
      std::vector<unit_words> arrived(of.units().size());
      for (auto& words : arrived)
        for (auto& word : words)
          word = random();
      of.take(arrived);
    }
    EXPECT_EQ(of.where(), remote_search::state::ask);
  }
}

} // namespace
} // namespace peercache::directory::remote_search_test
