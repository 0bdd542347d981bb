// Searches in another host's shard while it changes between any two of their READs.

#include "common/test_guards.hpp"
#include "directory/remote_search.hpp"
#include "directory/shard.hpp"
#include "directory/shard_batch.hpp"
#include "tests/directory/shard_records.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>

namespace peercache::directory::remote_search_changes_test {
namespace {

constexpr view_number view{3, 4};
constexpr incarnation carol{3, 3}, dave{4, 4}, erin{5, 5};
constexpr std::array holders{alice, bob, carol, dave, erin};

unit_words unit_of(shard& s, unit_number number) {
  unit_words words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = s.memory().at(number).words[i].load();
  return words;
}

std::vector<page_location> found_in(const shard& s, const page_key& key) {
  std::array<page_location, limits::locations_per_key_max> found;
  const auto count = s.lookup(key, found);
  return {found.begin(), found.begin() + count};
}

/// What was right about one key since a search began.
struct known_of_key {
  std::vector<page_location> ever;       ///< Locations that were there at some time.
  std::vector<page_location> throughout; ///< Locations that were there all the time.
  bool was_missing = false;

  void begin(const std::vector<page_location>& now) {
    ever = throughout = now;
    was_missing = now.empty();
  }
  void note(const std::vector<page_location>& now) {
    ever.insert(ever.end(), now.begin(), now.end());
    std::erase_if(throughout, [&](const auto& each) { return !has(now, each); });
    was_missing = was_missing || now.empty();
  }
  bool allows(const std::vector<page_location>& told) const {
    const auto was_there = [&](const auto& each) { return has(ever, each); };
    const auto is_told = [&](const auto& each) { return has(told, each); };
    return are_of_different_holders(told) && std::all_of(told.begin(), told.end(), was_there) &&
           std::all_of(throughout.begin(), throughout.end(), is_told) &&
           (!told.empty() || was_missing);
  }
  static bool are_of_different_holders(const std::vector<page_location>& told) {
    std::set<incarnation> all;
    for (const auto& each : told)
      all.insert(each.holder);
    return all.size() == told.size();
  }
  static bool has(const std::vector<page_location>& in, const page_location& wanted) {
    return std::find(in.begin(), in.end(), wanted) != in.end();
  }
};

/// A shard that notes what was right about key 1 since a look-up began.
class told_shard {
public:
  /// @param remembers whether a search knows what former ones have found
  explicit told_shard(bool remembers) : remembers_(remembers) {
    s.set_members(holders);
    s.set_view(view);
  }

  void publish(std::size_t which, incarnation holder, std::uint64_t gen,
               tier where = tier::memory) {
    s.publish(numbered_key(which), location_at(holder, gen, where), publish_mode::always);
    note();
  }
  void withdraw(std::size_t which, incarnation holder, std::uint64_t gen) {
    s.withdraw(numbered_key(which), holder, {gen});
    note();
  }
  void follow(std::initializer_list<incarnation> members) {
    s.follow(std::vector(members));
    note();
  }

  /// Looks key 1 up; `between` runs before each unit is READ. Returns whether that went wrong.
  bool is_told_wrongly(const std::function<void()>& between) {
    right_.begin(found_in(s, numbered_key(1)));
    remote_search of(std::array{numbered_key(1)}, known_,
                     {view, [](const page_key&) { return true; }},
                     {remembers_ ? &lines_ : nullptr, alice, {}});
    while (of.where() == remote_search::state::reading) {
      std::vector<unit_words> arrived;
      for (const auto number : of.units()) {
        between();
        arrived.push_back(unit_of(s, number));
      }
      of.take(arrived);
    }
    known_ = of.known();
    return of.where() == remote_search::state::found && !is_right(of.answer());
  }

private:
  void note() { right_.note(found_in(s, numbered_key(1))); }

  bool is_right(const std::string& answer) const {
    answer_reader reader(answer);
    std::array<page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
    return reader.next(found, count) && right_.allows({found.begin(), found.begin() + count});
  }

  const bool remembers_;
  shard s;
  known_shard_ptr known_;
  known_lines lines_;
  known_of_key right_;
};

/// What happens in a shard before key 1 is looked up, and in two moments while it is.
struct story {
  const char* name;
  void (*before)(told_shard&);
  void (*first)(told_shard&);
  void (*second)(told_shard&);
};

void let_alice_begin(told_shard& s) {
  s.publish(1, alice, 2);
}
void let_bob_follow_alice(told_shard& s) {
  s.publish(1, bob, 4); // Bob's first record in some stories.
  s.withdraw(1, alice, 2);
}
void take_free_record(told_shard& s) {
  s.publish(2, alice, 6);
}
/// Key 1 has records of Alice and Carol, who is gone.
void let_carol_go(told_shard& s, bool first_in_list) {
  s.publish(3, bob, 2);
  s.publish(1, first_in_list ? alice : carol, 2);
  s.publish(1, first_in_list ? carol : alice, 2);
  s.follow({alice, bob});
}
void let_carol_come_back(told_shard& s) {
  s.follow({alice, bob, carol});
}
/// Key 1 has as many records as it may have, of which that of Bob is the second one and on disk.
void fill_list(told_shard& s) {
  s.publish(3, erin, 2);
  s.publish(1, dave, 2);
  s.publish(1, carol, 2);
  s.publish(1, bob, 2, tier::disk);
  s.publish(1, alice, 2);
}
void let_bob_follow_first(told_shard& s) {
  s.publish(1, bob, 2);
  s.publish(1, alice, 2);
}
void nothing(told_shard&) {}

const std::array stories{
    story{"the_record_becomes_another_keys", let_alice_begin, let_bob_follow_alice,
          take_free_record},
    story{"a_holder_comes_before_the_record", let_alice_begin,
          [](told_shard& s) { s.publish(1, bob, 4); }, let_bob_follow_alice},
    story{"the_index_grows", let_alice_begin,
          [](told_shard& s) {
            for (std::size_t i = 100; i < 200; ++i)
              s.publish(i, bob, 2);
            let_bob_follow_alice(s);
          },
          take_free_record},
    story{"the_record_is_replaced", let_alice_begin, let_bob_follow_alice,
          [](told_shard& s) {
            take_free_record(s);
            s.publish(1, bob, 8);
          }},
    story{"the_first_of_two_is_back", [](told_shard& s) { let_carol_go(s, true); },
          let_carol_come_back, [](told_shard& s) { s.withdraw(1, alice, 2); }},
    story{"the_last_of_two_is_back", [](told_shard& s) { let_carol_go(s, false); },
          let_carol_come_back, [](told_shard& s) { s.withdraw(1, alice, 2); }},
    story{"a_holder_comes_before_one_who_is_gone", [](told_shard& s) { let_carol_go(s, true); },
          [](told_shard& s) { s.publish(1, bob, 4); },
          [](told_shard& s) { s.withdraw(1, alice, 2); }},
    story{"a_publish_takes_the_record_that_it_displaced", fill_list,
          [](told_shard& s) { s.publish(1, erin, 6); }, nothing},
    story{"a_record_is_published_again_in_its_place", let_bob_follow_first,
          [](told_shard& s) { s.withdraw(1, bob, 2); },
          [](told_shard& s) { s.publish(1, bob, 4); }},
};

/// Whether a look-up goes wrong when the two changes of the story are right before these of its
/// READs.
bool goes_wrong(const story& told, std::size_t first, std::size_t second, bool remembers) {
  told_shard s(remembers);
  told.before(s);
  bool wrong = s.is_told_wrongly([] {});
  std::size_t reads = 0;
  const auto change = [&] {
    if (reads == first)
      told.first(s);
    if (reads == second)
      told.second(s);
    ++reads;
  };
  return s.is_told_wrongly(change) || wrong;
}

/// Whether a look-up goes wrong wherever the changes fall between its READs.
bool ever_goes_wrong(const story& told, bool remembers) {
  for (std::size_t first = 0; first < 12; ++first)
    for (std::size_t second = first; second < 12; ++second)
      if (goes_wrong(told, first, second, remembers))
        return true;
  return false;
}

class stories_of_changes : public testing::TestWithParam<story> {};

TEST_P(stories_of_changes, are_told_rightly) {
  EXPECT_FALSE(ever_goes_wrong(GetParam(), false));
  EXPECT_FALSE(ever_goes_wrong(GetParam(), true));
}

TEST_P(stories_of_changes, are_told_wrongly_without_the_guard) {
  guard_switched_off off(guard::reread);
  EXPECT_TRUE(ever_goes_wrong(GetParam(), false));
}

INSTANTIATE_TEST_SUITE_P(remote_search_changes, stories_of_changes, testing::ValuesIn(stories),
                         [](const auto& info) { return std::string(info.param.name); });

/// A shard that changes at random between the READs of a search, and what was right meanwhile.
class changing_shard {
public:
  static constexpr std::size_t keys = 5;

  /// @param remembers whether a search knows what former ones have found
  changing_shard(unsigned seed, bool remembers) : remembers_(remembers), random_(seed) {
    s_.set_members(holders);
    s_.set_view(view);
    for (int i = 0; i < 40; ++i)
      change();
  }

  /// Returns whether a search was answered rightly, or not at all.
  bool tells_right(unsigned one_in) {
    for (std::size_t i = 0; i < keys; ++i)
      right_[i].begin(now(i));
    std::vector<page_key> wanted;
    for (std::size_t i = 0; i < keys; ++i)
      wanted.push_back(numbered_key(i));
    remote_search of(wanted, known_, {view, [](const page_key&) { return true; }},
                     {remembers_ ? &lines_ : nullptr, alice, {}});
    while (of.where() == remote_search::state::reading) {
      std::vector<unit_words> arrived(of.units().size());
      // A device READs the units of a round in any order.
      std::vector<std::size_t> order(arrived.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), random_);
      for (const auto at : order) {
        if (random_() % one_in == 0)
          change();
        arrived[at] = unit_of(s_, of.units()[at]);
      }
      of.take(arrived);
    }
    known_ = of.known();
    if (of.where() == remote_search::state::ask)
      return true;
    ++answered;
    one_round += of.rounds() == 1 ? 1 : 0;
    return is_right(of.answer());
  }

  int answered = 0;
  int one_round = 0; ///< Searches that were answered in one round.

private:
  std::vector<page_location> now(std::size_t which) const {
    return found_in(s_, numbered_key(which));
  }

  void change() {
    const auto which = random_() % keys;
    const auto holder = holders[random_() % holders.size()];
    const auto where = random_() % 4 == 0 ? tier::disk : tier::memory;
    gen_ += 2;
    switch (random_() % 14) {
    case 0:
      change_members();
      break;
    case 1:
      s_.forget(0, 1000);
      break;
    case 2:
      s_.publish(numbered_key(100 + random_() % 100), location_at(holder, gen_),
                 publish_mode::always);
      break;
    case 3:
      change_what_readers_may();
      break;
    case 4:
    case 5:
    case 6:
    case 7:
      s_.withdraw(numbered_key(which), holder, {gen_}, tier::disk);
      break;
    default:
      s_.publish(numbered_key(which), location_at(holder, gen_, where), publish_mode::always);
    }
    for (std::size_t i = 0; i < keys; ++i)
      right_[i].note(now(i));
  }

  /// Members go, and come back: with their records, or under another number without them.
  void change_members() {
    std::vector<incarnation> members;
    for (const auto& each : holders)
      if (random_() % 4 != 0)
        members.push_back(each);
    if (random_() % 4 == 0)
      s_.set_members(members);
    else
      s_.follow(members);
  }

  void change_what_readers_may() {
    s_.set_view(random_() % 4 == 0 ? view_number{3, 5} : view);
    if (random_() % 4 == 0)
      s_.forbid_remote_reads();
    else
      s_.allow_remote_reads();
  }

  bool is_right(const std::string& answer) const {
    answer_reader reader(answer);
    for (std::size_t i = 0; i < keys; ++i) {
      std::array<page_location, limits::locations_per_key_max> found;
      std::size_t count = 0;
      if (!reader.next(found, count) || reader.not_mine() ||
          !right_[i].allows({found.begin(), found.begin() + count}))
        return false;
    }
    return true;
  }

  const bool remembers_;
  std::mt19937 random_;
  shard s_;
  known_shard_ptr known_;
  known_lines lines_;
  std::uint64_t gen_ = 0;
  std::array<known_of_key, keys> right_;
};

/// Searches in many shards; counts those that were told wrongly, answered, and answered in one
/// round.
struct many_searches {
  int wrong = 0, answered = 0, one_round = 0;

  many_searches(unsigned change_one_in, bool remembers) {
    for (unsigned seed = 0; seed < 200; ++seed) {
      changing_shard s(seed, remembers);
      for (int i = 0; i < 60; ++i)
        wrong += s.tells_right(change_one_in + seed % 20) ? 0 : 1;
      answered += s.answered;
      one_round += s.one_round;
    }
  }
};

TEST(remote_search_changes, tells_what_was_there_while_the_shard_changes_at_random) {
  const many_searches done(2, false);
  EXPECT_EQ(done.wrong, 0);
  EXPECT_GT(done.answered, 5000);
}

TEST(remote_search_changes, tells_what_was_there_by_what_it_remembers) {
  const many_searches done(20, true);
  EXPECT_EQ(done.wrong, 0);
  EXPECT_GT(done.one_round, 300);
}

TEST(remote_search_changes, without_the_guard_a_shard_that_changes_at_random_is_told_wrongly) {
  guard_switched_off off(guard::reread);
  EXPECT_GT(many_searches(2, false).wrong, 100);
  EXPECT_GT(many_searches(20, true).wrong, 100);
}

} // namespace
} // namespace peercache::directory::remote_search_changes_test
